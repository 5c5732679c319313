#include "comm/solo_comm.h"

#include "comm/contract/collective_checks.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {
namespace {

void require_defined(CommOp op, const Tensor& tensor) {
  DS_CHECK(tensor.defined(), "{}: the tensor is undefined", name_of(op));
}

void copy(const Tensor& from, const Tensor& to, Stream& stream) {
  if (!from.aliases(to)) stream.copy(from.address(), to.address(), from.bytes());
}

}  // namespace

void SoloComm::require_usable(CommOp op) const {
  if (aborted_) throw CommError(fmt::format("{}: rank 0 called abort()", name_of(op)));
}

void SoloComm::all_reduce(Tensor& inout, ReduceOp /*op*/, Stream& /*stream*/) {
  require_usable(CommOp::kAllReduce);
  require_defined(CommOp::kAllReduce, inout);
}

void SoloComm::all_gather(const Tensor& shard, Tensor& full, Stream& stream) {
  require_usable(CommOp::kAllGather);
  require_defined(CommOp::kAllGather, shard);
  detail::check_all_gather(shard, full, 1);
  copy(shard, full, stream);
}

void SoloComm::reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp /*op*/, Stream& stream) {
  require_usable(CommOp::kReduceScatter);
  require_defined(CommOp::kReduceScatter, full);
  detail::check_reduce_scatter(full, shard, 1);
  if (full.dtype() == shard.dtype()) return copy(full, shard, stream);
  kernels::cast(stream, full.reshape(shard.shape()), shard);
}

void SoloComm::all_to_all(const Tensor& in, Tensor& out, Stream& stream) {
  require_usable(CommOp::kAllToAll);
  require_defined(CommOp::kAllToAll, in);
  detail::check_all_to_all(in, out, 1);
  copy(in, out, stream);
}

void SoloComm::broadcast(Tensor& inout, int root, Stream& /*stream*/) {
  require_usable(CommOp::kBroadcast);
  require_defined(CommOp::kBroadcast, inout);
  detail::check_root(root, 1);
}

void SoloComm::send(const Tensor& /*tensor*/, int to, Stream& /*stream*/) {
  require_usable(CommOp::kSend);
  detail::check_peer("send", 0, to, 1);
}

void SoloComm::recv(Tensor& /*tensor*/, int from, Stream& /*stream*/) {
  require_usable(CommOp::kRecv);
  detail::check_peer("recv", 0, from, 1);
}

void SoloComm::barrier() { require_usable(CommOp::kBarrier); }

std::unique_ptr<Communicator> SoloComm::split(int /*color*/, int /*key*/) {
  require_usable(CommOp::kSplit);
  return std::make_unique<SoloComm>(memory_);
}

}  // namespace ds
