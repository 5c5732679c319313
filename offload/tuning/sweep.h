// The settings of asynchronous I/O that a tuning run tries, and which of them it tries next (pure).
// Trying all takes minutes on a disk, and most settings are far from the best. So it goes along one
// axis at a time, from the best setting it knows (coordinate descent), until no single change
// helps; what is left of the budget begins anew at the setting that has least in common with those
// tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

struct IoSetting {
  int64_t block_size = int64_t{1} << 20;  // bytes
  int queue_depth = 32;
  bool overlap_events = true;
  bool single_submit = false;
  int io_parallel = 1;  // threads that share each request
  bool operator==(const IoSetting&) const = default;
};

// The values of each axis, the likeliest first: the search begins with the first of each.
struct SweepSpace {
  std::vector<int64_t> block_sizes = {int64_t{1} << 20, int64_t{8} << 20};
  std::vector<int> queue_depths = {32, 128};
  std::vector<bool> overlap_events = {true, false};
  std::vector<bool> single_submits = {false, true};
  std::vector<int> io_parallels = {1, 2, 4, 8};
};

size_t settings_in(const SweepSpace& space);
// All of them, the last axis fastest.
std::vector<IoSetting> all_settings(const SweepSpace& space);

// A quarter of all settings; in a small space at least one look along each axis, at most all.
size_t trials_allowed(const SweepSpace& space);

struct IoTrialScore {
  IoSetting setting;
  double score = 0;  // more is better
};

// What to try after `tried`, which came from here in this order; nothing when `budget` trials are
// done or none is left.
std::optional<IoSetting> next_setting(const SweepSpace& space,
                                      const std::vector<IoTrialScore>& tried, size_t budget);

// "1 MiB blocks, depth 32, overlapped, batched, 4 threads"
std::string to_text(const IoSetting& setting);

}  // namespace ds
