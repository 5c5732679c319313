#include "comm/meta_comm.h"

#include "comm/contract/collective_checks.h"
#include "comm/contract/operation.h"

namespace ds {
namespace {

void check_defined(CommOp op, const Tensor& tensor) {
  DS_CHECK(tensor.defined(), "{}: the tensor is undefined", name_of(op));
}

}  // namespace

MetaComm::MetaComm(int rank, int size) : rank_(rank), size_(size) {
  DS_CHECK(size > 0 && rank >= 0 && rank < size, "meta communicator: rank {} of {}", rank, size);
}

void MetaComm::all_reduce(Tensor& inout, ReduceOp /*op*/, Stream& /*stream*/) {
  check_defined(CommOp::kAllReduce, inout);
}

void MetaComm::all_gather(const Tensor& shard, Tensor& full, Stream& /*stream*/) {
  check_defined(CommOp::kAllGather, shard);
  detail::check_all_gather(shard, full, size_);
}

void MetaComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp /*op*/,
                              Stream& /*stream*/) {
  check_defined(CommOp::kReduceScatter, full);
  detail::check_reduce_scatter(full, shard, size_);
}

void MetaComm::all_to_all(const Tensor& in, Tensor& out, Stream& /*stream*/) {
  check_defined(CommOp::kAllToAll, in);
  detail::check_all_to_all(in, out, size_);
}

void MetaComm::broadcast(Tensor& inout, int root, Stream& /*stream*/) {
  check_defined(CommOp::kBroadcast, inout);
  detail::check_root(root, size_);
}

void MetaComm::send(const Tensor& tensor, int to, Stream& /*stream*/) {
  check_defined(CommOp::kSend, tensor);
  detail::check_peer("send", rank_, to, size_);
}

void MetaComm::recv(Tensor& tensor, int from, Stream& /*stream*/) {
  check_defined(CommOp::kRecv, tensor);
  detail::check_peer("recv", rank_, from, size_);
}

std::unique_ptr<Communicator> MetaComm::split(int /*color*/, int /*key*/) {
  throw Unsupported(
      "split: a meta communicator has no peers to ask for their colours; make the groups of a dry "
      "run "
      "with Mesh::meta or MetaComm(rank, size)");
}

}  // namespace ds
