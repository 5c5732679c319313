// The CPU half of kernels/softmax. Operands have been checked, but for the numbers in `targets`.
#pragma once

#include <string_view>

#include "kernels/softmax/softmax_operands.h"

namespace ds::kernels::detail {

// DataError, in the words of `op`, for the first row whose target is outside of the vocabulary.
void check_targets_cpu(std::string_view op, const Tensor& targets, int64_t vocabulary);
void softmax_cross_entropy_cpu(Stream& stream, const SoftmaxCrossEntropyArgs& args);
void softmax_part_cpu(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                      const VocabularyPart& part, Tensor& numbers);
void softmax_cross_entropy_of_parts_cpu(Stream& stream, const SoftmaxCrossEntropyArgs& args,
                                        const VocabularyPart& part, const Tensor& numbers);

}  // namespace ds::kernels::detail
