// Which examples share a sample (pure): best-fit decreasing, as Ding et al. (arXiv 2404.10830) and
// TRL's "bfd" pack documents. Equal lengths always make equal bins, so that a run that goes on sees
// the samples it would have seen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

struct PackingRoom {
  int64_t tokens = 0;  // of a sample
  int64_t window = 0;  // examples that are looked at together, in their order
};

// Bins of indices into `lengths`, each of which is from 1 to room.tokens. Within a window the
// longest example comes first, of equals the earlier one, and each goes where the least room is
// left that it fits, of equals into the older bin; a bin has its examples in that order. Bins of a
// window stand before those of the next.
std::vector<std::vector<int64_t>> pack_best_fit(std::span<const int64_t> lengths,
                                                const PackingRoom& room);

}  // namespace ds
