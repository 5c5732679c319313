// The CUDA half of kernels/moe/expert_order. Operands have been checked, but for the numbers
// in them.
#pragma once

#include "kernels/moe/expert_order_operands.h"

namespace ds::kernels::detail {

void sort_by_expert_cuda(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                         const ExpertOrder& to);
void count_choices_cuda(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                        Tensor& counts);

}  // namespace ds::kernels::detail
