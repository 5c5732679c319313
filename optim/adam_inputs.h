// The numbers of a step of Adam, and of optimizers with its moments.
#pragma once

#include <array>
#include <cstdint>

#include "optim/optimizer.h"

namespace ds {

// `betas` where the schedule does not drive them.
StepInputs adam_inputs(const Hyper& hyper, const std::array<double, 2>& own_betas,
                       bool bias_correction, int64_t step);

// Adam or AdamW, by the parameters of Adam in `config`.
std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& config, kernels::WeightDecay decay);

}  // namespace ds
