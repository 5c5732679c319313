// Ledger: the last collectives of one rank, in a ring: which group, which call, how many bytes, for
// whom, when it was entered and left. When a rank hangs, the ledgers say who did not enter what,
// and where it is instead. A device does its collectives while the host goes on: those it has still
// to do stay, however many came after. Thread-safe: the watchdog reads it while the rank is stuck
// in a call.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/contract/operation.h"
#include "core/device/stream.h"
#include "core/tasks/clock.h"

namespace ds {

struct LedgerEntry {
  uint64_t number = 0;    // over all groups of this rank, from 1
  std::string group;      // the axis, or "world"
  uint64_t sequence = 0;  // within the group, from 1: equal on all ranks of a call
  CommOp op = CommOp::kBarrier;
  int64_t bytes = 0;  // of the whole tensor
  std::string label;  // the stream's at that time: "transformer.h.3"
  int64_t enter_ns = 0;
  int64_t exit_ns = -1;  // -1: still inside, or left by an error; of a device's: when it was seen
};

class Ledger {
 public:
  // `clock` must outlive the ledger.
  Ledger(size_t capacity, const Clock& clock);

  // `label`: what it is for, may be empty. Returns the entry's number, for exit().
  uint64_t enter(std::string_view group, uint64_t sequence, CommOp op, int64_t bytes,
                 std::string_view label);
  void exit(uint64_t number);
  // It is left when `done` is reached, a mark of the device's stream behind the call.
  void exit(uint64_t number, Event done);

  // Returns where the rank is: in the oldest that a device has still to do, or else in the newest.
  std::optional<LedgerEntry> current() const;
  std::vector<LedgerEntry> entries() const;  // oldest first: `capacity`, and what is still to do
  std::string to_text() const;               // one line per entry, oldest first

 private:
  struct Kept {
    LedgerEntry entry{};
    std::optional<Event> done{};  // of a device that was not seen to have reached it
  };
  void look() const;  // which of the device's are done

  const Clock& clock_;
  mutable std::mutex ring_mutex_;  // guards everything below
  mutable std::vector<Kept> ring_;
  mutable std::deque<Kept> overdue_;  // of a device, and the ring has no place for them; by number
  uint64_t entered_ = 0;
};

}  // namespace ds
