// The CPU half of kernels/layer_norm. Operands have been checked.
#pragma once

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/layer_norm_operands.h"

namespace ds::kernels::detail {

void norm_forward_cpu(Stream& stream, const NormForward& a, int64_t rows);
void norm_backward_cpu(Stream& stream, const NormBackward& a, int64_t rows, LayerNormGrads& grads);

}  // namespace ds::kernels::detail
