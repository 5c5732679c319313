#include "train/step/graphs.h"

#include <utility>

namespace ds {

// What either stream was given before is done before what both are given now.
void StepGraphs::join() {
  if (&streams_.compute == &streams_.peers) return;
  streams_.peers.wait(streams_.compute.mark());  // and is recorded from here on, where that is
  streams_.compute.wait(streams_.peers.mark());
}

void StepGraphs::record(Part& part, const std::function<void()>& body) {
  const MemoryScope scope(streams_.compute, memory_);
  // Neither can a graph wait for events from before, nor anybody for those of its inside. Joined
  // streams need none of them.
  step_.forget_events();
  part.graph.record(streams_.compute, [&] {
    join();
    body();
    join();
  });
  step_.forget_events();
  if (calls_ != nullptr) part.calls = calls_->take();
}

bool StepGraphs::micro_step(const std::function<void()>& body) {
  const bool called =
      run(step_.is_first_micro_step() ? first_micro_step_ : later_micro_step_, body);
  if (!called) step_.repeat_micro_step();
  return called;
}

bool StepGraphs::run(Part& part, const std::function<void()>& body) {
  if (!records_) {
    body();
    return true;
  }
  const bool records = !part.graph.is_recorded();
  join();
  if (records) record(part, body);
  Event begin = streams_.compute.mark();
  replay_calls(part.calls, streams_.compute, [&] { part.graph.replay(streams_.compute); });
  for (Communicator* const group : groups_) group->follow_replay(streams_.compute, begin);
  join();
  return records;
}

}  // namespace ds
