// Cross entropy of a student's logits together with their divergence from those of a teacher.
#pragma once

#include "kernels/softmax/distillation_operands.h"

namespace ds::kernels {

// See distillation_operands.h. A target of V or more is found as softmax_cross_entropy() finds it;
// on a CUDA device its divergence becomes NaN, too.
void distilled_cross_entropy(Stream& stream, const DistilledCrossEntropyArgs& args);

// numbers, fp32 [n, 7]: of the columns that are here, the student's largest logit, its sums of
// e^(z - largest) and of e^((z - largest) / T), the logit of the target, or 0 where another rank
// has it; the teacher's largest and its sum of e^((t - largest) / T); and what these exponentials,
// each times ((t - largest of t) - (z - largest of z)) / T, come to.
void distillation_part(Stream& stream, const DistilledCrossEntropyArgs& args,
                       const VocabularyPart& part, Tensor& numbers);
// distilled_cross_entropy() of rows of which `args` has this rank's columns. numbers, fp32 [ranks,
// n, 7]: what distillation_part() gave on each rank, in the order of the ranks, so that all of them
// get the same losses to the bit.
void distilled_cross_entropy_of_parts(Stream& stream, const DistilledCrossEntropyArgs& args,
                                      const VocabularyPart& part, const Tensor& numbers);

}  // namespace ds::kernels
