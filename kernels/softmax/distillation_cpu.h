// The CPU half of kernels/softmax/distillation. Operands have been checked, but for the numbers in
// `targets`.
#pragma once

#include "kernels/softmax/distillation_operands.h"

namespace ds::kernels::detail {

void distilled_cross_entropy_cpu(Stream& stream, const DistilledCrossEntropyArgs& args);
void distillation_part_cpu(Stream& stream, const DistilledCrossEntropyArgs& args,
                           const VocabularyPart& part, Tensor& numbers);
void distilled_cross_entropy_of_parts_cpu(Stream& stream, const DistilledCrossEntropyArgs& args,
                                          const VocabularyPart& part, const Tensor& numbers);

}  // namespace ds::kernels::detail
