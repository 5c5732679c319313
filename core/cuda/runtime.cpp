// Queues and memory of real devices, by the CUDA runtime. It is linked in; the driver is looked for
// when the first call is made, so that programs start on machines without one.
#include <cuda_runtime_api.h>

#include <source_location>

#include "core/cuda/memory.h"
#include "core/cuda/queue.h"
#include "core/cuda/slab_memory.h"
#include "core/error.h"

namespace ds {
namespace {

// Errors of work that was given before are told by whichever call comes next.
void check(cudaError_t error, std::string_view what,
           const std::source_location& place = std::source_location::current()) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is told now, and not by the launch that comes next
  const std::string text = fmt::format("{}: {} ({}), at {}:{}", what, cudaGetErrorString(error),
                                       cudaGetErrorName(error), place.file_name(), place.line());
  if (error == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ||
      error == cudaErrorInvalidDevice) {
    throw Unsupported(text);
  }
  throw InternalError(text);
}

// The runtime works on the device that the thread has chosen.
void choose(Device device) { check(cudaSetDevice(device.index), device.to_string()); }

class CudaEvent final : public QueueEvent {
 public:
  explicit CudaEvent(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    check(cudaEventRecord(event_, stream), "event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;  // owns the event
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool ready() override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "work before an event");
    return true;
  }
  void wait_on_host() override { check(cudaEventSynchronize(event_), "work before an event"); }
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaQueue final : public DeviceQueue {
 public:
  explicit CudaQueue(Device device) : device_(device) {
    choose(device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  ~CudaQueue() override { cudaStreamDestroy(stream_); }  // what it was given is still done
  CudaQueue(const CudaQueue&) = delete;                  // owns the stream
  CudaQueue& operator=(const CudaQueue&) = delete;

  std::shared_ptr<QueueEvent> mark() override {
    choose(device_);
    return std::make_shared<CudaEvent>(stream_);
  }
  void wait(const std::shared_ptr<QueueEvent>& event) override {
    const cudaEvent_t native = dynamic_cast<const CudaEvent&>(*event).native();
    check(cudaStreamWaitEvent(stream_, native, 0), "wait");
  }
  void copy(const void* from, void* to, size_t bytes) override {
    choose(device_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copy");
    cudaPointerAttributes of_target{};
    check(cudaPointerGetAttributes(&of_target, to), "copy");
    if (of_target.type == cudaMemoryTypeUnregistered) {
      check(cudaStreamSynchronize(stream_), "copy to the host");
    }
  }
  void fill_bytes(void* to, int value, size_t bytes) override {
    choose(device_);
    check(cudaMemsetAsync(to, value, bytes, stream_), "fill");
  }
  void* native() const override { return stream_; }

 private:
  const Device device_;
  cudaStream_t stream_ = nullptr;
};

// One cudaMalloc.
class DeviceBlock {
 public:
  DeviceBlock(Device device, std::string_view name, size_t bytes) {
    choose(device);
    const cudaError_t error = cudaMalloc(&data_, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), name);
      refuse_block(name, bytes, free, total);
    }
    check(error, name);
  }
  ~DeviceBlock() { cudaFree(data_); }        // waits for what the device is doing
  DeviceBlock(const DeviceBlock&) = delete;  // owns its bytes
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class PinnedBlock {
 public:
  explicit PinnedBlock(size_t bytes) {
    check(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable),
          fmt::format("pinned memory: {} bytes in one block", bytes));
  }
  ~PinnedBlock() { cudaFreeHost(data_); }
  PinnedBlock(const PinnedBlock&) = delete;  // owns its bytes
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// A block of the driver's, and who hands out its parts.
template <class Block>
class BlockMemory final : public MemoryResource {
 public:
  template <class... Arguments>
  BlockMemory(const std::string& name, size_t bytes, Arguments&&... of_block)
      : block_(std::forward<Arguments>(of_block)...), parts_(name, block_.data(), bytes) {}
  void* allocate(size_t bytes, MemoryTag tag) override { return parts_.allocate(bytes, tag); }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    parts_.deallocate(pointer, bytes, tag);
  }

 private:
  const Block block_;
  SlabMemory parts_;
};

}  // namespace

std::unique_ptr<DeviceQueue> make_device_queue(Device device) {
  return std::make_unique<CudaQueue>(device);
}
std::unique_ptr<MemoryResource> make_device_memory(Device device, size_t bytes) {
  const std::string name = fmt::format("memory of {}", device.to_string());
  return std::make_unique<BlockMemory<DeviceBlock>>(name, bytes, device, name, bytes);
}
std::unique_ptr<MemoryResource> make_pinned_memory(size_t bytes) {
  return std::make_unique<BlockMemory<PinnedBlock>>("pinned memory", bytes, bytes);
}

}  // namespace ds
