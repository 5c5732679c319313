// The CUDA half of kernels/softmax. Operands have been checked, but for the numbers in `targets`.
#pragma once

#include "kernels/softmax/softmax_operands.h"

namespace ds::kernels::detail {

void softmax_cross_entropy_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args);
void softmax_part_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                       const VocabularyPart& part, Tensor& numbers);
void softmax_cross_entropy_of_parts_cuda(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                         const VocabularyPart& part, const Tensor& numbers);

}  // namespace ds::kernels::detail
