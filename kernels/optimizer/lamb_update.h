// LAMB (You et al., arXiv 1904.00962), as DeepSpeed's FusedLamb has it, in two passes over each
// parameter: the first moves the moments and adds up squares, the second moves the weights. Between
// them ranks that have parts of a parameter tell each other their sums.
#pragma once

#include <cmath>

#include "kernels/step/scalars.h"

namespace ds::kernels {

enum class EpsPlace : uint8_t { kAfterRoot, kInsideRoot };

// u = m / (sqrt(v) + eps) + weight_decay w, or m / sqrt(v + eps) + ...; w -= r size u. size = lr
// sqrt(correction2) / correction1; r = ||w|| / ||u|| of the whole parameter, not less than
// min_coeff and not more than max_coeff, and 1 where either norm is 0.
struct LambRule {
  float eps = 1e-8F;
  EpsPlace eps_place = EpsPlace::kAfterRoot;
  float weight_decay = 0;
  double min_coeff = 0.01;
  double max_coeff = 10;
  double lr_scale = 1;
};
struct LambFactors {
  float beta1, rest1, beta2, rest2, eps_inside, eps_after, decay;
  double size;
};
constexpr LambFactors factors_of(const LambRule& rule, const StepInputs& in) {
  const bool inside = rule.eps_place == EpsPlace::kInsideRoot;
  return {.beta1 = static_cast<float>(in.beta1),
          .rest1 = static_cast<float>(1 - in.beta1),
          .beta2 = static_cast<float>(in.beta2),
          .rest2 = static_cast<float>(1 - in.beta2),
          .eps_inside = inside ? rule.eps : 0,
          .eps_after = inside ? 0 : rule.eps,
          .decay = rule.weight_decay,
          .size = in.lr * rule.lr_scale * std::sqrt(in.correction2) / in.correction1};
}
constexpr float lamb_direction(const LambFactors& k, float weight, float m, float v) {
  return m / (std::sqrt(v + k.eps_inside) + k.eps_after) + k.decay * weight;
}
constexpr double trust_ratio(double weight_norm, double update_norm, double least, double most) {
  if (weight_norm == 0 || update_norm == 0) return 1.0;
  const double ratio = weight_norm / update_norm;
  const double clamped = ratio < most ? ratio : most;
  return clamped > least ? clamped : least;
}

// These are the parts of one parameter that lie in a shard.
struct LambArgs {
  Tensor master;      // fp32 [n]
  Tensor grad;        // [n] fp32, bf16 or fp16
  Tensor exp_avg;     // fp32 [n]
  Tensor exp_avg_sq;  // fp32 [n]
  Tensor copy = {};   // [n] bf16 or fp16: receives the rounded weight; or undefined
};

inline constexpr int64_t kLambSums = 2;  // squares of the weights, of the direction

// Moves the moments, and adds the squares of weights and direction to `sums`, fp64 [2], where that
// is defined: in an order that depends on n alone. Nothing moves where the scalars say skip.
void lamb_moments(Stream& stream, const LambArgs& args, const LambRule& rule,
                  const StepScalars& scalars, const Tensor& sums);

// This says where a parameter's sums are among those of all ranks.
struct LambSums {
  Tensor gathered;  // fp64 [ranks * params * 2]
  int64_t params = 0;
  int64_t param = 0;
};
void lamb_apply(Stream& stream, const LambArgs& args, const LambRule& rule,
                const StepScalars& scalars, const LambSums& sums);

// r size, of the sums of all ranks in rank order.
constexpr float lamb_step(const LambRule& rule, const LambFactors& factors, const double* gathered,
                          int64_t ranks, int64_t params, int64_t param) {
  double weights = 0, directions = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const double* sums = gathered + (rank * params + param) * kLambSums;
    weights += sums[0];
    directions += sums[1];
  }
  return static_cast<float>(factors.size * trust_ratio(std::sqrt(weights), std::sqrt(directions),
                                                       rule.min_coeff, rule.max_coeff));
}

}  // namespace ds::kernels
