// What the halves of layer_norm are told. Internal to kernels/.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels::detail {

enum class Norm : uint8_t { kLayer, kRms, kRmsOnePlus };

// Calls body.template operator()<kind>().
template <class Body>
void on_norm(Norm kind, Body&& body) {
  switch (kind) {
    case Norm::kLayer:
      return body.template operator()<Norm::kLayer>();
    case Norm::kRms:
      return body.template operator()<Norm::kRms>();
    case Norm::kRmsOnePlus:
      return body.template operator()<Norm::kRmsOnePlus>();
  }
}

struct NormForward {
  Norm kind;
  const Tensor& x;
  const Tensor& residual;  // undefined: none
  const Tensor& gamma;
  const Tensor& beta;  // undefined unless kLayer
  float eps;
  const Tensor& sum;  // x + residual, when there is one
  const Tensor& y;
  const Tensor& mean;  // undefined unless kLayer
  const Tensor& inv;   // 1 / standard deviation, or 1 / root mean square
};

struct NormBackward {
  Norm kind;
  const Tensor& x;
  const Tensor& gamma;
  const Tensor& mean;
  const Tensor& inv;
  const Tensor& dy;
  const Tensor& residual_grad;
  const Tensor& dx;
};

}  // namespace ds::kernels::detail
