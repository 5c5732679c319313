// The end of a step on the CPU, where kernels throw and no flags wait to be fetched.
#include "kernels/step/scalars_cpu.h"

#include "kernels/step/scalars_outcome.h"

namespace ds::kernels::detail {

void finish_step_cpu(const Tensor& gathered, const FinishRule& rule, const StepScalars& scalars) {
  StepOutcome& outcome = scalars.outcome();
  outcome = outcome_of(gathered.data<double>(), gathered.numel() / kStepSums, rule, outcome, 0);
  scalars.inputs() = inputs_of(outcome, scalars.inputs(), scalars.inputs_after_skip());
}

}  // namespace ds::kernels::detail
