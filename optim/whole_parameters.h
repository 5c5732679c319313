// Optimizers that see more of a parameter than one weight: by its norm, or as a matrix.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace ds {

// These are made by the sections `lamb` and `muon` of the configuration. Both throw Unsupported for
// state in fewer bits than fp32.
std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config);
std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config);

}  // namespace ds
