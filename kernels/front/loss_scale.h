// What the gradients of a loss are multiplied by.
#pragma once

namespace ds::kernels::detail {

constexpr float scaled(float grad_scale, const double* loss_scale) {
  return loss_scale == nullptr ? grad_scale : static_cast<float>(grad_scale * *loss_scale);
}

}  // namespace ds::kernels::detail
