// Update rules of the optimizers that need no kernel of their own (pure): fp32 weights, gradients
// and state as spans of equal length, updated in place, element by element in order. Adam's is
// kernels/update. The arithmetic is that of DeepSpeed's CPU optimizers and torch.optim.SGD.
#pragma once

#include <cstdint>
#include <span>

#include "config/sections/optimizer.h"

namespace ds {

// c = beta1 m + (1 - beta1) g; w = w (1 - lr weight_decay) - lr sign(c); m = beta2 m + (1 - beta2)
// g. sign is the sign bit of c: zero counts as +1. Chen et al. (arXiv 2302.06675).
void update(const LionParams& rule, std::span<float> weight, std::span<const float> grad,
            std::span<float> momentum);

// s += (g + weight_decay w)^2; w -= lr g / (sqrt(s) + eps): the decay enters the sum only, the
// numerator is the plain gradient, as in DeepSpeedCPUAdagrad. Duchi et al. 2011.
void update(const AdagradParams& rule, std::span<float> weight, std::span<const float> grad,
            std::span<float> sum);

// g += weight_decay w; b = momentum b + (1 - dampening) g, or g at step 1; g = g + momentum b with
// Nesterov, else b; w -= lr g. Without momentum `buffer` is empty. step counts from 1.
void update(const SgdParams& rule, int64_t step, std::span<float> weight,
            std::span<const float> grad, std::span<float> buffer);
// ConfigError: nothing is negative, and Nesterov needs a momentum and no dampening.
void check(const SgdParams& rule);

// LAMB's trust ratio ||w|| / ||u||, clamped; 1 when either norm is 0. You et al. (arXiv
// 1904.00962).
double trust_ratio(double weight_norm, double update_norm, double least, double most);

}  // namespace ds
