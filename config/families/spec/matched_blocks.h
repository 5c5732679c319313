// Blocks of a model and of its teacher whose outputs are to be alike.
#pragma once

#include <cstdint>

namespace ds {

struct MatchedBlocks {
  int64_t own = 0, teacher = 0;  // numbers of blocks, from 1
  friend bool operator==(const MatchedBlocks&, const MatchedBlocks&) = default;
};

}  // namespace ds
