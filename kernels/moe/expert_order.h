// The choices of tokens in the order of their experts: a stable counting sort, so that the rows of
// an expert lie side by side and in the order of tokens. It has one result, whatever the threads.
#pragma once

#include "kernels/moe/expert_order_operands.h"

namespace ds::kernels {

// experts: int32 [N, k], each less than the experts of `to`, or -1 for choices that are left out.
// The CPU throws for others; a CUDA device leaves them out and says
// DeviceFlag::kExpertOutsideLayer.
void sort_by_expert(Stream& stream, const Tensor& experts, int64_t choices, ChoiceOrder by,
                    const ExpertOrder& to);

// counts, int32 [experts], = how many of the first `counted` choices of all tokens fall on each
// expert. `experts` as above.
void count_choices(Stream& stream, const Tensor& experts, const CountedChoices& which,
                   Tensor& counts);

}  // namespace ds::kernels
