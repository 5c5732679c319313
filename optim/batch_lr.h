// The learning rate for a batch of another size than it was tuned for (pure).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/status/error.h"

namespace ds {

// linear: Goyal et al. (arXiv 1706.02677); sqrt keeps the variance of the update.
enum class BatchLrRule { kNone, kLinear, kSqrt };

inline double lr_for_batch(double base_lr, int64_t base_batch, int64_t batch, BatchLrRule rule) {
  DS_CHECK(base_batch > 0 && batch >= 0, "lr_for_batch: batch {} from a base of {}", batch,
           base_batch);
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  if (rule == BatchLrRule::kLinear) return base_lr * ratio;
  return rule == BatchLrRule::kSqrt ? base_lr * std::sqrt(ratio) : base_lr;
}

}  // namespace ds
