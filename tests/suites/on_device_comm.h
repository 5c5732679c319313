// OnDeviceComm: what the communicator suite, whose tensors lie on the host, needs to run on a group
// for tensors of a device: each call is made on copies there, which are copied back. What aliases
// on the host does so on the device.
#pragma once

#include <memory>

#include "comm/contract/communicator.h"
#include "tests/suites/rank_device.h"

namespace ds::test {

class OnDeviceComm final : public Communicator {
 public:
  // Groups that are split off share the device.
  OnDeviceComm(std::shared_ptr<testing::RankDevice> device, std::unique_ptr<Communicator> inner)
      : device_(std::move(device)), inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  SumOrder sum_order() const override { return inner_->sum_order(); }

  void all_reduce(Tensor& inout, ReduceOp op, Stream& /*stream*/) override {
    Tensor there = up(inout);
    inner_->all_reduce(there, op, device_->stream);
    down(there, inout);
  }
  void all_gather(const Tensor& shard, Tensor& full, Stream& /*stream*/) override {
    Tensor all = up(full);
    inner_->all_gather(part_of(full, all, shard), all, device_->stream);
    down(all, full);
  }
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& /*stream*/) override {
    const Tensor all = up(full);
    Tensor mine = part_of(full, all, shard);
    inner_->reduce_scatter(all, mine, op, device_->stream);
    down(mine, shard);
  }
  void all_to_all(const Tensor& in, Tensor& out, Stream& /*stream*/) override {
    Tensor received = up(out);
    inner_->all_to_all(up(in), received, device_->stream);
    down(received, out);
  }
  void broadcast(Tensor& inout, int root, Stream& /*stream*/) override {
    Tensor there = up(inout);
    inner_->broadcast(there, root, device_->stream);
    down(there, inout);
  }
  void send(const Tensor& tensor, int to, Stream& /*stream*/) override {
    inner_->send(up(tensor), to, device_->stream);
  }
  void recv(Tensor& tensor, int from, Stream& /*stream*/) override {
    Tensor there = up(tensor);
    inner_->recv(there, from, device_->stream);
    down(there, tensor);
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<OnDeviceComm>(device_, inner_->split(color, key));
  }
  void abort() noexcept override { inner_->abort(); }
  MemoryResource& memory() override { return heap_; }  // of the suite's tensors

 private:
  Tensor up(const Tensor& tensor) {
    if (!tensor.defined()) return {};
    Tensor there = Tensor::empty(tensor.shape(), tensor.dtype(), device_->stream);
    device_->stream.copy(tensor.raw(), there.address(), tensor.bytes());
    return there;
  }
  // `part`, as a view of `there` where it is one of `here`.
  Tensor part_of(const Tensor& here, const Tensor& there, const Tensor& part) {
    const auto* const begin = static_cast<const std::byte*>(here.raw());
    const auto* const at = static_cast<const std::byte*>(part.raw());
    if (at < begin || at >= begin + here.bytes()) return up(part);
    const auto element = static_cast<int64_t>(size_of(here.dtype()));
    return there.narrow((at - begin) / element, part.numel());
  }
  // Waits: the host's memory is not pinned.
  void down(const Tensor& there, Tensor& tensor) {
    device_->stream.copy(there.address(), tensor.raw(), tensor.bytes());
  }

  const std::shared_ptr<testing::RankDevice> device_;
  HostMemory heap_;
  const std::unique_ptr<Communicator> inner_;
};

}  // namespace ds::test
