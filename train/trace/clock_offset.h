// How far the clocks of ranks lie apart: ranks of one host have one steady clock, those of several
// have one each, which began when that host did.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "comm/contract/host_exchange.h"

namespace ds {

// One message there and one back, in nanoseconds: when it was sent, what the peer's clock showed,
// when the answer was there.
struct ClockReading {
  int64_t sent = 0, theirs = 0, received = 0;
};
// The peer's clock minus ours (pure), by the reading that was quickest: half of what that one took
// is how wrong it can be. Clocks that differ by no more than that count as one clock: ranks of one
// host do have one, however late a busy host answers, and hosts' differ by when they were started.
int64_t clock_offset(std::span<const ClockReading> readings);

struct SharedClock {
  int64_t offset_ns = 0;  // this rank's clock minus rank 0's
  int64_t begin_ns = 0;   // now, by rank 0's clock; equal on all ranks
};
// Collective. `now`: this rank's clock, in nanoseconds.
SharedClock share_clock(HostExchange& host, const std::function<int64_t()>& now);

}  // namespace ds
