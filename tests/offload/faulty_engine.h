// A decorator that makes an engine's transfers short, fail, come late or come in another order,
// at a chosen transfer or at every k-th. What it reports as not moved has garbage in its place,
// so that who forgets the rest of a short transfer has other contents.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "offload/async_io/io_engine.h"

namespace ds::test {

enum class IoFault { kNone, kNothingMoved, kOneByte, kAllButOneByte, kError, kLate };

// One or several engines have these faults, and count their transfers together. It must outlive
// them.
struct IoFaults {
  IoFault fault = IoFault::kNone;
  int64_t first = 0;       // the transfer, counted from 0, that it happens to
  int64_t every = 0;       // and then to every so-many-th; 0: to that one only
  int times = 1;           // how often in a row to a block of the same place in the file
  int error_number = 5;    // of kError: EIO
  bool reordered = false;  // completions come out backwards
  std::chrono::milliseconds late{0};

  std::atomic<int64_t> count = 0;   // transfers so far
  std::atomic<int64_t> played = 0;  // faults so far

 private:
  friend class FaultyEngine;
  bool strikes(const IoBlock& block);

  std::mutex again_mutex_;
  std::map<std::pair<IoKind, int64_t>, int> again_;  // faults to come, by where the block lies
};

std::unique_ptr<IoEngine> make_faulty_engine(std::unique_ptr<IoEngine> inner, IoFaults& faults);

}  // namespace ds::test
