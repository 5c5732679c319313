// SoloComm: the group of a rank that is alone on an axis. Its collectives are copies, in the order
// of the stream, on whatever device that is.
#pragma once

#include <atomic>

#include "comm/contract/communicator.h"
#include "comm/contract/operation.h"

namespace ds {

class SoloComm final : public Communicator {
 public:
  // `memory`: what memory() gives; must outlive it and the groups that are split off.
  explicit SoloComm(MemoryResource& memory) : memory_(memory) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  SumOrder sum_order() const override { return SumOrder::kRank; }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void barrier() override;
  void check() override { require_usable(CommOp::kBarrier); }
  bool is_recordable() const override { return true; }
  std::unique_ptr<Communicator> split(int color, int key) override;
  // Nothing is ever pending; what follows is a CommError, as with any group.
  void abort() noexcept override { aborted_ = true; }
  MemoryResource& memory() override { return memory_; }

 private:
  void require_usable(CommOp op) const;

  MemoryResource& memory_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace ds
