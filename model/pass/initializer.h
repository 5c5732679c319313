// The first value of every weight: a pure function of seed, name and index, so that any rank can
// make any range of any parameter and gets the same bits.
#pragma once

#include "core/tasks/thread_pool.h"
#include "model/pass/param.h"

namespace ds {

// Writes elements [begin, begin + range.numel()) of the parameter into `range` (flat; fp32, bf16 or
// fp16, rounded once from fp32). A cut starts from the bits that its elements have in the logical
// tensor. `pool` may be null: the bits do not depend on it.
void initialize(const ParamSpec& spec, uint64_t seed, int64_t begin, Tensor& range,
                ThreadPool* pool = nullptr);

}  // namespace ds
