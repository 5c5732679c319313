// Lion, Adagrad, SGD and RMSprop over shards: the rules of kernels/step. And the choice among all
// optimizers that an engine trains with.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace ds {

// Makes what `type` names, AdamW if it is not given. The lr of its parameters is replaced by
// Hyper::lr at every step. Slots, in the format of `moment_dtype`: Adam {exp_avg, exp_avg_sq, with
// amsgrad max_exp_avg_sq}, Lion {exp_avg}, Adagrad {sum}, SGD {momentum_buffer} or none without
// momentum, RMSprop {square_avg, then momentum_buffer and grad_avg where there are any}, Lamb those
// of Adam, Muon {momentum_buffer} of matrices and those of Adam of the rest. Throws ConfigError for
// parameters that cannot be, Unsupported for a type that this build does not have.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

// The lr of the parameters that `type` names.
double learning_rate(const OptimizerConfig& config);

}  // namespace ds
