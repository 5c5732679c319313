// The CUDA half of kernels/softmax. Operands have been checked, but for the numbers in `targets`.
#pragma once

#include "kernels/softmax.h"

namespace ds::kernels::detail {

void softmax_cross_entropy_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args);

}  // namespace ds::kernels::detail
