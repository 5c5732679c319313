// What losses of routers are told, see router_loss.h.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/write.h"

namespace ds::kernels {

// d(total)/d(loss), which is grad_scale * loss_scale, times the gradient of the loss goes to what
// it is of. loss_scale is in memory of the device, or null for 1.
struct LossGradient {
  float grad_scale = 1.0F;
  const double* loss_scale = nullptr;
  Write write = Write::kOverwrite;
};

struct BalanceLoss {
  Tensor scores;  // fp32 [N, experts]
  Tensor counts;  // int32 [experts]
  int64_t choices = 1;
};

}  // namespace ds::kernels
