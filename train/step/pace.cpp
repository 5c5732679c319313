#include "train/step/pace.h"

namespace ds {

StepMove next_move(const StepsUnderWay& steps, Edge edge) {
  const int64_t waiting = steps.begun - steps.known;
  const bool may_begin =
      steps.begun < steps.last && waiting <= steps.late && (waiting == 0 || edge == Edge::kPassed);
  if (may_begin) return StepMove::kBegin;
  return waiting > 0 ? StepMove::kTakeResult : StepMove::kEnd;
}

}  // namespace ds
