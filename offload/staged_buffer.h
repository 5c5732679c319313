// A buffer of the host, and what is under way between it and a swap file. Confined to one thread at
// a time.
#pragma once

#include <vector>

#include "offload/staging_pool.h"
#include "offload/swapper.h"

namespace ds {

struct StagedBuffer {
  StagingPool::Lease lease{};
  std::vector<SwapTicket> under_way{};

  // Waits for all of it; throws the first error, or that of a transfer that timed out: the buffer
  // is lost to its pool then.
  void await(Swapper& swapper);
  // Does the same, for callers that have an error already or will meet it again.
  void await_quietly(Swapper& swapper) noexcept;
};

}  // namespace ds
