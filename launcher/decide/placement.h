// RankPlacement says where one rank of an epoch runs.
#pragma once

#include <cstdint>
#include <string>

namespace ds {

// Ranks of one host are numbered consecutively.
struct RankPlacement {
  std::string host;  // as the hostfile calls it; empty: this machine
  int local_rank = 0;
  int local_size = 1;
  int64_t slot = 0;  // the host's device or CPU slot
};

}  // namespace ds
