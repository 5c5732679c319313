// Carries out what plan_rolling() decided: parts come from a Swapper into buffers of a StagingPool,
// are worked on by the caller, and go back. One thread does it all; what overlaps with the work are
// the transfers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "offload/rolling.h"
#include "offload/staging_pool.h"
#include "offload/swapper.h"

namespace ds {

// The part's bytes, exactly; the work is done when it returns.
using RollingWork = std::function<void(int part, std::span<std::byte> bytes)>;

// What of a part's buffer is kept under a key.
struct RollingPiece {
  std::string key;
  int64_t offset = 0;  // bytes from the start of the buffer
  int64_t bytes = 0;
  bool is_written = true;  // else it is only ever read here, and others put it
};
using RollingPieces = std::vector<RollingPiece>;

// Part k are the pieces `parts[k]` of the swapper. Where something fails, what is under way is
// waited for, no more work begins, and the first error is thrown; parts that were worked on may be
// written or not.
// The pool must outlive the swapper: the buffer of a transfer that timed out stays with it.
void run_rolling(const RollingPlan& plan, std::span<const RollingPieces> parts, Swapper& swapper,
                 StagingPool& pool, const RollingWork& work);
// Each part in one piece.
void run_rolling(const RollingPlan& plan, std::span<const std::string> keys, Swapper& swapper,
                 StagingPool& pool, const RollingWork& work);

}  // namespace ds
