// The CUDA half of kernels/layer_norm. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_operands.h"

namespace ds::kernels::detail {

void norm_forward_cuda(Stream& stream, std::string_view name, const NormForward& a, int64_t rows);
void norm_backward_cuda(Stream& stream, std::string_view name, const NormBackward& a, int64_t rows,
                        LayerNormGrads& grads);

}  // namespace ds::kernels::detail
