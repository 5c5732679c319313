// The CPU half of kernels/activation. Operands have been checked.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/activation_kind.h"
#include "kernels/front/micro_inputs.h"

namespace ds::kernels::detail {

void activation_forward_cpu(Stream& stream, Activation kind, const Tensor& x, Tensor& y);
void activation_backward_cpu(Stream& stream, Activation kind, const Tensor& x, const Tensor& dy,
                             Tensor& dx);
void glu_forward_cpu(Stream& stream, Activation f, const Tensor& gate_up, int64_t rows,
                     int64_t width, Tensor& y);
void glu_backward_cpu(Stream& stream, Activation f, const Tensor& gate_up, const Tensor& dy,
                      int64_t rows, int64_t width, Tensor& dgate_up);
void dropout_cpu(Stream& stream, const Tensor& x, float p, const DropoutMask& mask,
                 int64_t sample_numel, Tensor& y);

}  // namespace ds::kernels::detail
