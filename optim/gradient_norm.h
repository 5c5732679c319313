// Norms of gradients that come in several pieces, and the one factor that unscales and clips them
// (pure). Sums run in double precision.
#pragma once

#include <span>

namespace ds {

// The p-norm over all tensors together; p is infinity for the largest magnitude. p > 0.
double gradient_norm(std::span<const std::span<const float>> tensors, double p = 2.0);

// Root of the sum of squares of norms of parts; 0 for none.
double global_norm(std::span<const double> norms);

// What scaled gradients are multiplied by: 1 / (loss_scale * max(1, (total_norm / loss_scale +
// 1e-6) / max_norm)). total_norm is the norm of the still scaled gradients; max_norm 0 switches
// clipping off.
double unscale_and_clip_factor(double total_norm, double loss_scale, double max_norm);

}  // namespace ds
