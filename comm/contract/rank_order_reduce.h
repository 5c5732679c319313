// The one reduction over ranks that every CPU transport uses: element by element, in rank order, in
// fp32 for 16- and 32-bit floats and in fp64 for fp64. The bits of the result depend on the inputs
// alone: not on chunk sizes, alignment or the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/contract/communicator.h"
#include "core/values/dtype.h"

namespace ds::detail {

struct ReduceTypes {
  DType in = DType::kF32;
  // Equal to `in`, or fp32 where `in` is bf16 or fp16 (the sum is not rounded).
  DType out = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
};

// Throws InternalError when no reduction exists for this pair of dtypes.
void check_reduce_types(const ReduceTypes& types);

// targets[t][i] = op over r of sources[r][i], for i in [0, numel). Each target equals (same
// address) or does not overlap each source. Averages of integers are truncated towards zero;
// integer sums and products wrap. A NaN wins every minimum and maximum.
void reduce_in_rank_order(const ReduceTypes& types, std::span<const std::byte* const> sources,
                          std::span<std::byte* const> targets, int64_t numel);
// The same, by all threads of the stream's pool where the work is worth it.
void reduce_on_pool(const ReduceTypes& types, std::span<const std::byte* const> sources,
                    std::span<std::byte* const> targets, int64_t numel, Stream& stream);

}  // namespace ds::detail
