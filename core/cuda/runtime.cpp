// Queues and memory of real devices, by the CUDA runtime. It is linked in; the driver is looked for
// when the first call is made, so that programs start on machines without one.
#include <cuda_runtime_api.h>

#include <source_location>

#include "core/cuda/capture.h"
#include "core/cuda/library_calls.h"
#include "core/cuda/memory.h"
#include "core/cuda/moment.h"
#include "core/cuda/queue.h"
#include "core/cuda/slab_memory.h"
#include "core/status/error.h"

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

// While a thread records a graph the runtime refuses it calls that do not concern the recording but
// might: waiting for other work, taking memory. What does concern it is refused by capture.h.
class Unwatched {
 public:
  Unwatched() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Unwatched() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Unwatched(const Unwatched&) = delete;  // restores on exit, exactly once
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class CudaEvent final : public QueueEvent {
 public:
  CudaEvent(cudaStream_t stream, std::shared_ptr<Capture> capture) : capture_(std::move(capture)) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    const cudaError_t error = cudaEventRecord(event_, stream);
    if (error != cudaSuccess) cudaEventDestroy(event_);
    check(error, "event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;  // owns the event
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool ready() override {
    require_on_time_line(capture_.get(), "ready");
    const Unwatched unwatched;
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check(state, "work before an event");
    return true;
  }
  void wait_on_host() override {
    require_on_time_line(capture_.get(), "wait_on_host or synchronize");
    const Unwatched unwatched;
    check(cudaEventSynchronize(event_), "work before an event");
  }
  const std::shared_ptr<Capture>& capture() const { return capture_; }
  cudaEvent_t native() const { return event_; }

 private:
  const std::shared_ptr<Capture> capture_;  // that it was marked in, or null
  cudaEvent_t event_ = nullptr;
};

class CudaGraph final : public QueueGraph {
 public:
  // Takes the graph over.
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiateWithFlags(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "graph: instantiation");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;  // owns the graph
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch(DeviceQueue& queue) override;
  cudaGraphExec_t native() const { return executable_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

bool is_pageable(const void* at) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, at), "copy");
  return attributes.type == cudaMemoryTypeUnregistered;
}

class CudaQueue final : public DeviceQueue {
 public:
  explicit CudaQueue(Device device) : device_(device) {
    choose(device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  ~CudaQueue() override {
    abandon_capture();
    cudaStreamDestroy(stream_);  // what it was given is still done
  }
  CudaQueue(const CudaQueue&) = delete;  // owns the stream
  CudaQueue& operator=(const CudaQueue&) = delete;

  std::shared_ptr<QueueEvent> mark() override {
    choose(device_);
    return std::make_shared<CudaEvent>(stream_, part_.active());
  }
  void wait(const std::shared_ptr<QueueEvent>& event) override {
    const auto& other = dynamic_cast<const CudaEvent&>(*event);
    part_.join(other.capture());
    check(cudaStreamWaitEvent(stream_, other.native(), 0), "wait");
  }
  void copy(const void* from, void* to, size_t bytes) override {
    choose(device_);
    const bool waits = is_pageable(to);
    if (part_.active() && (waits || is_pageable(from))) part_.refuse_pageable_copy();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copy");
    if (waits) check(cudaStreamSynchronize(stream_), "copy to the host");
  }
  void fill_bytes(void* to, int value, size_t bytes) override {
    choose(device_);
    check(cudaMemsetAsync(to, value, bytes, stream_), "fill");
  }
  void* native() const override { return stream_; }

  void begin_capture() override {
    part_.begin(std::make_shared<Capture>());
    try {
      choose(device_);
      // Only this thread is limited: others go on, with what does not concern the recording.
      check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin_capture");
    } catch (...) {
      part_.end();
      throw;
    }
  }
  std::unique_ptr<QueueGraph> end_capture() override {
    part_.end();
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    if (error == cudaErrorStreamCaptureUnjoined) {
      cudaGetLastError();
      refuse_unjoined();
    }
    check(error, "end_capture");
    return std::make_unique<CudaGraph>(graph);
  }
  void abandon_capture() noexcept override {
    if (!part_.began()) return;
    part_.end();
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  bool is_recorded() const override { return part_.active() != nullptr; }
  void launch(const CudaGraph& graph) {
    part_.refuse_replay();
    choose(device_);
    check(cudaGraphLaunch(graph.native(), stream_), "replay");
  }

 private:
  const Device device_;
  cudaStream_t stream_ = nullptr;
  CapturePart part_;
};

class CudaMoment final : public QueueMoment {
 public:
  explicit CudaMoment(cudaStream_t stream) {
    check(cudaEventCreate(&event_), "moment");
    const cudaError_t error = cudaEventRecord(event_, stream);
    if (error != cudaSuccess) cudaEventDestroy(event_);
    check(error, "moment");
  }
  ~CudaMoment() override { cudaEventDestroy(event_); }
  CudaMoment(const CudaMoment&) = delete;  // owns the event
  CudaMoment& operator=(const CudaMoment&) = delete;

  double seconds_since(QueueMoment& earlier) override {
    const auto& before = dynamic_cast<const CudaMoment&>(earlier);
    const Unwatched unwatched;
    check(cudaEventSynchronize(before.event_), "work before a moment");
    check(cudaEventSynchronize(event_), "work before a moment");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, before.event_, event_), "time between two moments");
    constexpr double kMillisecond = 1e-3;
    return milliseconds * kMillisecond;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

void CudaGraph::launch(DeviceQueue& queue) { dynamic_cast<CudaQueue&>(queue).launch(*this); }

// One cudaMalloc.
class DeviceBlock {
 public:
  DeviceBlock(Device device, std::string_view name, size_t bytes) {
    choose(device);
    const Unwatched unwatched;
    const cudaError_t error = cudaMalloc(&data_, bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), name);
      refuse_block(name, bytes, free, total);
    }
    check(error, name);
  }
  ~DeviceBlock() {
    const Unwatched unwatched;
    cudaFree(data_);  // waits for what the device is doing
  }
  DeviceBlock(const DeviceBlock&) = delete;  // owns its bytes
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class PinnedBlock {
 public:
  // More bytes than any machine has may be an invalid value to the runtime; nothing else that it is
  // given here can be one.
  explicit PinnedBlock(size_t bytes) {
    const Unwatched unwatched;
    const cudaError_t error = cudaHostAlloc(&data_, bytes, cudaHostAllocPortable);
    check(error == cudaErrorInvalidValue ? cudaErrorMemoryAllocation : error,
          fmt::format("pinned memory: {} bytes in one block", bytes));
  }
  ~PinnedBlock() {
    const Unwatched unwatched;
    cudaFreeHost(data_);
  }
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
std::shared_ptr<QueueMoment> mark_moment(DeviceQueue& queue) {
  return std::make_shared<CudaMoment>(static_cast<cudaStream_t>(queue.native()));
}
void use_device(Device device) { choose(device); }
namespace {

cudaDeviceProp properties_of(Device device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.index), device.to_string());
  return properties;
}

}  // namespace

std::string unique_name(Device device) {
  const cudaDeviceProp properties = properties_of(device);
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}
std::string model_name(Device device) { return properties_of(device).name; }
std::unique_ptr<MemoryResource> make_device_memory(Device device, size_t bytes) {
  const std::string name = fmt::format("memory of {}", device.to_string());
  return std::make_unique<BlockMemory<DeviceBlock>>(name, slab_bytes(bytes), device, name,
                                                    slab_bytes(bytes));
}
std::unique_ptr<MemoryResource> make_pinned_memory(size_t bytes) {
  return std::make_unique<BlockMemory<PinnedBlock>>("pinned memory", slab_bytes(bytes),
                                                    slab_bytes(bytes));
}

}  // namespace ds
