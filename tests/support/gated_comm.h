// GatedComm: a communicator whose collectives may touch memory that is closed to the host
// (guarded_memory.h).
#pragma once

#include "comm/contract/communicator.h"
#include "core/memory/access_gate.h"

namespace ds::testing {

// Both must outlive it. A group that is split off is gated alike.
class GatedComm final : public Communicator {
 public:
  GatedComm(Communicator& inner, AccessGate& gate) : inner_(inner), gate_(gate) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  SumOrder sum_order() const override { return inner_.sum_order(); }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.all_reduce(inout, op, stream);
  }
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.all_gather(shard, full, stream);
  }
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.reduce_scatter(full, shard, op, stream);
  }
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.all_to_all(in, out, stream);
  }
  void broadcast(Tensor& inout, int root, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.broadcast(inout, root, stream);
  }
  void send(const Tensor& tensor, int to, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.send(tensor, to, stream);
  }
  void recv(Tensor& tensor, int from, Stream& stream) override {
    const DeviceAccess access(&gate_);
    inner_.recv(tensor, from, stream);
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> group = inner_.split(color, key);
    if (!group) return nullptr;
    auto gated = std::make_unique<GatedComm>(*group, gate_);
    gated->own_ = std::move(group);
    return gated;
  }
  void abort() noexcept override { inner_.abort(); }
  MemoryResource& memory() override { return inner_.memory(); }

 private:
  Communicator& inner_;
  AccessGate& gate_;
  std::unique_ptr<Communicator> own_;  // null: another's
};

}  // namespace ds::testing
