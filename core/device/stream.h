// A stream is an ordered queue of work on one device, with what that work needs: memory, threads,
// and an optional trace. CPU streams run inline, in order; meta streams run nothing. There is no
// default stream: every kernel, collective and allocation names its own.
#pragma once

#include <memory>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "core/cuda/queue.h"
#include "core/device/trace.h"
#include "core/memory/access_gate.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "core/values/device.h"

namespace ds {

struct StreamOptions {
  Device device = Device::cpu();
  MemoryResource* memory = nullptr;  // not owned; must outlive every tensor allocated through it
  ThreadPool* pool = nullptr;        // not owned; required for CPU streams
  Trace* trace = nullptr;            // not owned; may be null
  AccessGate* gate = nullptr;        // not owned; of tests that guard the memory, else null
  // This is the device whose run a meta stream plans.
  Device stands_for = Device::cpu();
};

// A point in a stream's work, made by Stream::mark(). Another stream may wait for it, so that what
// the first was given before that point is done when the second goes on. CPU and meta streams do
// what they are given before the call returns: their points are reached when they are made, and
// what is left of one is its time on the clock of a trace.
class Event {
 public:
  Event() = default;  // reached from the beginning
  bool ready() const { return in_queue_ == nullptr || in_queue_->ready(); }
  void wait_on_host() const {
    if (in_queue_ != nullptr) in_queue_->wait_on_host();
  }

 private:
  friend class Stream;
  double seconds_ = 0;
  std::shared_ptr<QueueEvent> in_queue_;  // of a CUDA stream
};

class Stream {
 public:
  explicit Stream(const StreamOptions& options);
  Stream(const Stream&) = delete;  // identity matters: work is ordered per stream
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  // Whose blocks and scratch memory its work has: its own device; on meta the one it plans for.
  Device stands_for() const { return stands_for_; }
  ThreadPool& pool() const { return *pool_; }
  MemoryResource& memory() const { return *memory_; }
  Trace* trace() const { return trace_; }
  AccessGate* gate() const { return gate_; }  // open while work of the stream runs

  Event mark() const {
    Event event;
    if (trace_ != nullptr) event.seconds_ = trace_->now();
    if (queue_ != nullptr) event.in_queue_ = queue_->mark();
    return event;
  }
  void wait(const Event& event) {
    if (trace_ != nullptr) trace_->not_before(event.seconds_);
    if (event.in_queue_ == nullptr) return;
    if (queue_ != nullptr) {
      queue_->wait(event.in_queue_);
    } else {
      event.wait_on_host();  // work of the CPU begins when it is given
    }
  }
  void synchronize() const { mark().wait_on_host(); }
  // Bytes that do not overlap, in the order of the stream's work; `to` and `from` may be on the
  // host or on the stream's device.
  void copy(const void* from, void* to, size_t bytes);
  void fill_bytes(void* to, int value, size_t bytes);

  // What it is given now becomes part of a graph and is not done (cuda/step_graph.h): for who has
  // to wait for it on the host.
  bool is_recorded() const { return queue_ != nullptr && queue_->is_recorded(); }

  // Returns the queue that kernels of a CUDA stream are given to; only a CUDA stream has one.
  DeviceQueue& queue() const { return *queue_; }

  // What the work given to it now is for: the innermost Span, empty outside of any.
  std::string_view label() const { return label_; }

  // Reports an operation to the trace, if there is one.
  void report(std::string_view op, const OpCost& cost) const {
    if (trace_ != nullptr) trace_->on_op(op, cost);
  }

  // One lazily made T that lives as long as the stream: where backends keep library handles and
  // primitive caches.
  template <class T>
  T& state() {
    std::shared_ptr<void>& slot = state_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  friend class MemoryScope;
  friend class Span;
  Device device_;
  Device stands_for_;
  MemoryResource* memory_;
  ThreadPool* pool_;
  Trace* trace_;
  AccessGate* gate_;
  std::unique_ptr<DeviceQueue> queue_;  // of a CUDA device
  std::string_view label_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> state_;
};

// For its lifetime the stream's work is labelled, for people who ask what a rank is doing:
// "transformer.h.3". The label's text has to live as long.
class Span {
 public:
  Span(Stream& stream, std::string_view label)
      : stream_(stream), previous_(std::exchange(stream.label_, label)) {}
  ~Span() { stream_.label_ = previous_; }
  Span(const Span&) = delete;  // restores on exit, exactly once
  Span& operator=(const Span&) = delete;

 private:
  Stream& stream_;
  std::string_view previous_;
};

// For its lifetime the stream allocates from another resource (an arena, a shared segment).
class MemoryScope {
 public:
  MemoryScope(Stream& stream, MemoryResource& memory)
      : stream_(stream), previous_(std::exchange(stream.memory_, &memory)) {}
  ~MemoryScope() { stream_.memory_ = previous_; }
  MemoryScope(const MemoryScope&) = delete;  // restores on exit, exactly once
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  Stream& stream_;
  MemoryResource* previous_;
};

}  // namespace ds
