// One rank's side of one collective: what peers must agree on before any data moves.
#pragma once

#include <cstdint>
#include <string>

#include "comm/contract/operation.h"
#include "core/values/dtype.h"

namespace ds::detail {

struct CollectiveCall {   // plain bytes: it travels as it is
  uint64_t sequence = 0;  // of the group, from 1
  int64_t numel = 0;      // of the whole (not per-rank) tensor
  int32_t root = 0;
  CommOp op = CommOp::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;
  DType in = DType::kU8;
  DType out = DType::kU8;
  bool operator==(const CollectiveCall&) const = default;
};

std::string describe(const CollectiveCall& call);  // "all_reduce #12 of fp32 x 1024, sum"
// "the ranks disagree: rank 0 calls ..., rank 1 calls ..."
std::string disagreement(int rank, const CollectiveCall& mine, int peer,
                         const CollectiveCall& theirs);

}  // namespace ds::detail
