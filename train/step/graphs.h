// StepGraphs: the parts of an engine's steps that are recorded once (core/device/step_graph.h) and
// given to the device as a whole in every later step: a micro-step, where the first of a step and
// the others differ in what they overwrite, and the update. The first step is made without, because
// it makes what is made at first use. Confined to the thread that begins steps.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "comm/calls/recorded_calls.h"
#include "core/device/step_graph.h"
#include "core/memory/kept_memory.h"
#include "zero/store_step.h"

namespace ds {

class StepGraphs {
 public:
  // `groups`: whose calls are in the graphs. `calls`: where traced groups tell what of theirs is
  // recorded; may be null. All references must outlive it.
  StepGraphs(StoreStreams streams, StoreStep& step, std::vector<Communicator*> groups,
             RecordedCalls* calls)
      : streams_(streams),
        step_(step),
        groups_(std::move(groups)),
        calls_(calls),
        memory_(streams.compute.memory()) {}

  // Both give the streams a part: the body's work as it comes, or what that was when it was
  // recorded. A body does the same work every time, with numbers that lie in memory.
  void update(const std::function<void()>& body) { run(update_, body); }
  // From the store's begin_micro_step() to its end_micro_step(). True where the body has been
  // called; where not, the store knows of the micro-step all the same.
  bool micro_step(const std::function<void()>& body);
  // What is given from now on is recorded.
  void end_first_step() { records_ = true; }

 private:
  struct Part {
    StepGraph graph;
    std::vector<RecordedCall> calls;
  };
  bool run(Part& part, const std::function<void()>& body);
  void record(Part& part, const std::function<void()>& body);
  void join();

  const StoreStreams streams_;
  StoreStep& step_;
  const std::vector<Communicator*> groups_;
  RecordedCalls* const calls_;
  KeptMemory memory_;  // before the graphs, which work in it
  Part first_micro_step_, later_micro_step_, update_;
  bool records_ = false;
};

}  // namespace ds
