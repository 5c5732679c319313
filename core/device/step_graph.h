// StepGraph: the work of a step, recorded once and given to a stream as a whole every time it is
// done again. It saves the host what thousands of launches take. Refuses to know what the work is.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/device/stream.h"
#include "core/status/error.h"

namespace ds {

// What makes a body fit for it:
// * All that changes between two replays lies in memory: of the device, or pinned, which a copy
//   inside of the body reads when the graph runs (StepInputs of kernels/step/scalars.h). What a
//   kernel is given by value stays as it was when it was recorded.
// * Its memory has places that are used by nothing but graphs which are replayed in the order in
//   which they were recorded, for as long as they are (an arena, KeptMemory).
// * What is made at first use (tables, DeviceFlags, handles of libraries) has been made: the first
//   step is done without a graph.
// * Its effects on the host, such as what traces and ledgers are told, happen when it is recorded,
//   once, on a CUDA device, and every time on others.
// * Other streams take part by waiting for an event of `stream` that is marked inside, and `stream`
//   waits for them in the end; events from before are waited for before replay().
class StepGraph {
 public:
  // Does nothing of the body's work. An exception of the body ends the recording, and the streams
  // go on as before; what was recorded earlier is still there.
  void record(Stream& stream, std::function<void()> body) {
    DS_CHECK(body != nullptr, "graph: record: no body");
    if (stream.device().kind != Device::Kind::kCuda) {
      graph_ = nullptr;
      body_ = std::move(body);
    } else {
      Recording recording(stream.queue());
      body();
      graph_ = recording.end();
      body_ = nullptr;
    }
    device_ = stream.device();
  }

  // Gives the work to the stream, after what it was given before. CPU and meta call the body again.
  void replay(Stream& stream) const {
    DS_CHECK(is_recorded(), "graph: replay: nothing is recorded");
    DS_CHECK(stream.device() == device_, "graph: replay on {}: recorded for {}",
             stream.device().to_string(), device_.to_string());
    if (graph_ != nullptr) return graph_->launch(stream.queue());
    body_();
  }

  bool is_recorded() const { return graph_ != nullptr || body_ != nullptr; }

 private:
  class Recording {
   public:
    explicit Recording(DeviceQueue& queue) : queue_(queue) { queue_.begin_capture(); }
    ~Recording() { queue_.abandon_capture(); }
    Recording(const Recording&) = delete;  // ends what it began, exactly once
    Recording& operator=(const Recording&) = delete;
    std::unique_ptr<QueueGraph> end() { return queue_.end_capture(); }

   private:
    DeviceQueue& queue_;
  };

  Device device_;
  std::function<void()> body_;         // of the CPU and of meta
  std::unique_ptr<QueueGraph> graph_;  // of a CUDA device
};

}  // namespace ds
