// Ranks as threads over the stand-in of NCCL (fake_nccl), each with a GPU of its own of the
// emulated device, and a face for the conformance suite, whose tensors lie on the host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/comm.h"
#include "core/cuda/memory.h"
#include "core/libraries/gpu_libraries.h"
#include "core/libraries/nccl.h"
#include "tests/support/fake_nccl/faults.h"
#include "tests/support/ranks.h"

namespace ds::test {

// For its lifetime the stand-in plays these; not for two at a time.
class PlayedFaults {
 public:
  explicit PlayedFaults(const fake_nccl::Faults& faults) { play(faults); }
  ~PlayedFaults() { play({}); }
  PlayedFaults(const PlayedFaults&) = delete;  // ends them, exactly once
  PlayedFaults& operator=(const PlayedFaults&) = delete;

 private:
  static void play(const fake_nccl::Faults& faults) {
    nccl().library.function<fake_nccl::Play>("fakeNcclPlay")(&faults);
  }
};

inline int hanging_calls() {
  return nccl().library.function<fake_nccl::Hanging>("fakeNcclHanging")();
}

// What a rank computes on.
struct RankDevice {
  static constexpr size_t kBytes = size_t{24} << 20;
  explicit RankDevice(int rank)
      : device(Device::cuda(rank)), memory(make_device_memory(device, kBytes)) {}
  Device device;
  std::unique_ptr<MemoryResource> memory;
  Stream stream{{.device = device, .memory = memory.get()}};

  Tensor floats(const std::vector<float>& values) {
    Tensor tensor = Tensor::empty({narrow<int64_t>(values.size())}, DType::kF32, stream);
    stream.copy(values.data(), tensor.address(), tensor.bytes());
    return tensor;
  }
  std::vector<float> read(const Tensor& tensor) {  // waits for the stream
    std::vector<float> values(to_size(tensor.numel()));
    stream.copy(tensor.address(), values.data(), tensor.bytes());
    return values;
  }
};

struct NcclRank {
  Communicator& hosts;
  RankDevice& device;
  NcclOptions options;
};

// `body` opens the group, or not. Failures end as those of run_group().
inline void run_nccl_ranks(int size, const NcclOptions& like,
                           const std::function<void(NcclRank)>& body) {
  run_group(make_thread_group(size, {.timeout = like.timeout}), [&](Communicator& hosts) {
    RankDevice device(hosts.rank());
    NcclOptions options = like;
    options.device = device.device;
    options.memory = device.memory.get();
    body({hosts, device, options});
  });
}

// Takes tensors of the host to the device and back, and waits: what NCCL is told is what it would
// be told of tensors of the device, places within others included.
class HostFace final : public Communicator {
 public:
  HostFace(std::unique_ptr<Communicator> inner, RankDevice& device)
      : inner_(std::move(inner)), device_(device) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  SumOrder sum_order() const override { return inner_->sum_order(); }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& /*stream*/) override {
    Tensor there = to_device(inout);
    inner_->all_reduce(there, op, device_.stream);
    to_host(there, inout);
  }
  void all_gather(const Tensor& shard, Tensor& full, Stream& /*stream*/) override {
    Tensor there = to_device(full);
    inner_->all_gather(within(shard, full, there), there, device_.stream);
    to_host(there, full);
  }
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& /*stream*/) override {
    const Tensor there = to_device(full);
    Tensor part = within(shard, full, there);
    inner_->reduce_scatter(there, part, op, device_.stream);
    to_host(part, shard);
  }
  void all_to_all(const Tensor& in, Tensor& out, Stream& /*stream*/) override {
    Tensor there = to_device(out);
    inner_->all_to_all(in.aliases(out) ? there : to_device(in), there, device_.stream);
    to_host(there, out);
  }
  void broadcast(Tensor& inout, int root, Stream& /*stream*/) override {
    Tensor there = to_device(inout);
    inner_->broadcast(there, root, device_.stream);
    to_host(there, inout);
  }
  void send(const Tensor& tensor, int to, Stream& /*stream*/) override {
    inner_->send(to_device(tensor), to, device_.stream);
  }
  void recv(Tensor& tensor, int from, Stream& /*stream*/) override {
    Tensor there = to_device(tensor);
    inner_->recv(there, from, device_.stream);
    to_host(there, tensor);
  }
  void exchange(const Exchange& messages, Stream& /*stream*/,
                const std::function<void()>& meanwhile) override {
    Tensor there = to_device(messages.in);
    inner_->exchange(
        {.out = to_device(messages.out), .to = messages.to, .in = there, .from = messages.from},
        device_.stream, meanwhile);
    to_host(there, messages.in);
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<HostFace>(inner_->split(color, key), device_);
  }
  void check() override { inner_->check(); }
  void abort() noexcept override { inner_->abort(); }
  MemoryResource& memory() override { return heap_; }

 private:
  Tensor to_device(const Tensor& tensor) {
    if (!tensor.defined()) return {};
    Tensor there = Tensor::empty(tensor.shape(), tensor.dtype(), device_.stream);
    device_.stream.copy(tensor.raw(), there.address(), tensor.bytes());
    return there;
  }
  void to_host(const Tensor& there, Tensor& tensor) {
    device_.stream.copy(there.address(), tensor.raw(), tensor.bytes());
    inner_->check();
  }
  // The part of `there` that lies as `part` does in `whole`, or a tensor of its own.
  Tensor within(const Tensor& part, const Tensor& whole, const Tensor& there) {
    const auto* const begin = static_cast<const std::byte*>(whole.address());
    const auto* const at = static_cast<const std::byte*>(part.address());
    if (part.dtype() != whole.dtype() || at < begin || at + part.bytes() > begin + whole.bytes()) {
      return to_device(part);
    }
    const auto offset = static_cast<int64_t>(to_size(at - begin) / size_of(part.dtype()));
    return there.narrow(offset, part.numel());
  }

  const std::unique_ptr<Communicator> inner_;
  RankDevice& device_;
  HostMemory heap_;
};

}  // namespace ds::test
