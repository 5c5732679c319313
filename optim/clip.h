// Clipping of gradients that were scaled for fp16. That of plain ones is in kernels/step/scalars.h.
#pragma once

#include <algorithm>

#include "core/status/error.h"

namespace ds {

// What gradients that were scaled for fp16 are multiplied by: 1 / (loss_scale * max(1, (total_norm
// / loss_scale + 1e-6) / max_norm)). total_norm is the norm of the still scaled gradients; max_norm
// 0 switches clipping off.
inline double unscale_and_clip_factor(double total_norm, double loss_scale, double max_norm) {
  DS_CHECK(loss_scale > 0, "unscale: the loss scale is {}, expected above 0", loss_scale);
  const double clip = max_norm > 0 ? (total_norm / loss_scale + 1e-6) / max_norm : 1.0;
  return 1.0 / (loss_scale * std::max(1.0, clip));
}

}  // namespace ds
