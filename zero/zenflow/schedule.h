// ZenFlow (Lan et al., arXiv 2505.12242): of every matrix the columns with the largest gradients
// are important. They are updated on the device, at every step; the gradients of the rest add up on
// the host, whose mean over an interval is one update. What is no matrix is important as a whole.
// When which of this happens (pure), by the numbers of updates, which count from 1 and leave out
// steps that change nothing.
#pragma once

#include <cstdint>
#include <optional>

namespace ds {

struct ZenflowOptions {
  double topk_ratio = 0.1;  // of columns that are important, more than 0; one at least
  // Columns are chosen at update 1, 1 + select_every ... of those after the warm-up, and at the
  // first of these; 0: then alone.
  int64_t select_every = 0;
  // If not 0, select_every will be the number of updates in so many epochs; 0: it is known.
  int64_t select_epochs = 0;
  // The rest is updated every so many updates; nothing: when its gradients have grown as large as
  // those of what is important.
  std::optional<int64_t> update_every = std::nullopt;
  double auto_ratio = 0.99;  // of matrices for which that has to be so
  int64_t warm_up = 0;       // first updates, which are of everything, on the host
  // The rest's update is made while the next interval goes on, and is seen at the end of that.
  bool overlaps = false;
  bool offloads_moments = false;  // of what is important, to the host between updates

  bool operator==(const ZenflowOptions&) const = default;
};

constexpr bool warms_up(const ZenflowOptions& options, int64_t update) {
  return update <= options.warm_up;
}

constexpr bool selects_at(const ZenflowOptions& options, int64_t update) {
  if (update <= options.warm_up) return false;
  if (update == options.warm_up + 1) return true;
  return options.select_every > 0 && (update - 1) % options.select_every == 0;
}

// Whether the interval ends with this update, whatever the gradients are: before columns are chosen
// anew it does.
constexpr bool ends_interval(const ZenflowOptions& options, int64_t update) {
  if (options.update_every && (update - options.warm_up) % *options.update_every == 0) return true;
  return options.select_every > 0 && update % options.select_every == 0;
}

// An update after which the next one is like it, as nearly as there is one: what a plan shows.
constexpr int64_t usual_update(const ZenflowOptions& options) {
  int64_t update = options.warm_up + 2;
  for (int64_t tries = 0; tries < 4; ++tries, ++update) {
    if (!selects_at(options, update) && !ends_interval(options, update)) return update;
  }
  return options.warm_up + 2;
}

}  // namespace ds
