// Gradient clipping by the global norm.
#pragma once

#include <algorithm>

namespace ds {

// The factor that brings a gradient of norm `norm` down to `max_norm`: min(1, max_norm / (norm +
// 1e-6)), as torch.nn.utils.clip_grad_norm_ has it. max_norm 0 switches clipping off.
inline float clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

}  // namespace ds
