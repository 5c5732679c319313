// The end of a step on the CPU, where kernels throw and no flags wait to be fetched.
#include "kernels/cpu/scalars.h"

#include "kernels/step/outcome.h"

namespace ds::kernels::detail {

void finish_step_cpu(const Tensor& gathered, double max_norm, const StepScalars& scalars) {
  StepOutcome& outcome = scalars.outcome();
  outcome = outcome_of(gathered.data<double>(), gathered.numel() / kStepSums, max_norm, outcome, 0);
}

}  // namespace ds::kernels::detail
