// Gradient clipping by the global norm.
#pragma once

#include <algorithm>

#include "core/error.h"

namespace ds {

// The factor that brings a gradient of norm `norm` down to `max_norm`: min(1, max_norm / (norm +
// 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. max_norm 0 switches clipping off.
inline float clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

// What gradients that were scaled for fp16 are multiplied by: 1 / (loss_scale * max(1, (total_norm
// / loss_scale + 1e-6) / max_norm)). total_norm is the norm of the still scaled gradients; max_norm
// 0 switches clipping off.
inline double unscale_and_clip_factor(double total_norm, double loss_scale, double max_norm) {
  DS_CHECK(loss_scale > 0, "unscale: the loss scale is {}, expected above 0", loss_scale);
  const double clip = max_norm > 0 ? (total_norm / loss_scale + 1e-6) / max_norm : 1.0;
  return 1.0 / (loss_scale * std::max(1.0, clip));
}

}  // namespace ds
