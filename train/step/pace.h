// How far a run may be ahead of the results of its steps (pure). Where results come late, the next
// step is begun before the result of the last one is taken; but nobody can save, evaluate, pause or
// stop between two steps that are both under way, so before such an edge all results are taken.
// Ranks that were told the same do the same: nothing here depends on when a result is there.
#pragma once

#include <cstdint>

namespace ds {

struct StepsUnderWay {
  int64_t begun = 0;  // steps begun so far, those of earlier runs included
  int64_t known = 0;  // of those, the ones whose results have been taken
  int64_t last = 0;   // the step to end after
  int late = 0;       // how many steps may wait for their results when the next one begins
};

// Whether something is to be done between the newest step that was begun and the next.
enum class Edge { kPassed, kNeeded };

enum class StepMove { kBegin, kTakeResult, kEnd };

// kEnd only when all results are taken. Where late is 0, every step is begun and its result taken.
StepMove next_move(const StepsUnderWay& steps, Edge edge);

}  // namespace ds
