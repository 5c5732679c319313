// Rolling (pure): parts that do not fit in memory together pass through a few buffers, one after
// the other: part k+1 is read while part k is worked on and part k-1 is written. What is decided
// here is the order of the steps and who has which buffer; run_rolling() (rolling_run.h) carries it
// out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

enum class RollingAccess : uint8_t {
  kUpdate,  // every part is read, worked on and written
  kRead,    // nothing is written: parts are looked at
  kFill,    // nothing is read: the work makes the content
};

struct RollingOptions {
  std::vector<int64_t> part_bytes;  // one per part, each at least 1
  int buffers = 1;                  // each as large as the largest part
  bool pipeline_read = false;       // the next part is read while one is worked on
  bool pipeline_write = false;      // a part is written while the next one is worked on
  RollingAccess access = RollingAccess::kUpdate;
};

enum class RollingStep : uint8_t {
  kRead,        // begin to read the part into the buffer, which is free
  kAwaitRead,   // wait until it is there
  kWork,        // on the part, in the buffer
  kWrite,       // begin to write the part
  kAwaitWrite,  // wait until it is written: the buffer is free
};

struct RollingAction {
  RollingStep step = RollingStep::kRead;
  int part = 0;
  int buffer = 0;
  bool operator==(const RollingAction&) const = default;
};

struct RollingPlan {
  std::vector<RollingAction> actions;
  std::vector<int64_t> part_bytes;
  int buffers = 0;           // of which no more than these are in use at once
  int64_t buffer_bytes = 0;  // the largest part
  RollingAccess access = RollingAccess::kUpdate;

  // One line per part: "read 1 > b; have 0; work 0 in a; write 0 < a".
  std::string to_string() const;
};

// How many buffers the overlap that is asked for takes: one for the work, one more for reading
// ahead and one more for writing behind.
int buffers_needed(const RollingOptions& options);

// Buffers beyond the needed ones read further ahead, or, where only writes overlap, write longer
// behind. ConfigError where there are fewer than needed: the overlap that was asked for would be
// none.
RollingPlan plan_rolling(const RollingOptions& options);

}  // namespace ds
