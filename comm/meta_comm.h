// MetaComm: a group without peers or bytes, for the dry run. Every call checks its shapes as a real
// transport would and returns; what it would have cost is counted by the TracedComm around it.
#pragma once

#include "comm/contract/communicator.h"

namespace ds {

class MetaComm final : public Communicator {
 public:
  MetaComm(int rank, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  SumOrder sum_order() const override { return SumOrder::kRank; }  // nothing is summed
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void barrier() override {}
  // Throws Unsupported: the colours of absent peers are unknown. Mesh makes its meta groups from
  // the axis sizes instead.
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abort() noexcept override {}
  MemoryResource& memory() override { return memory_; }

 private:
  const int rank_;
  const int size_;
  MetaMemory memory_;
};

}  // namespace ds
