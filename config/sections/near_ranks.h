// Which of the data-parallel ranks are near each other, where a configuration cuts them into
// neighbourhoods: shards of MiCS, the secondary partition of ZeRO++'s hpZ, the hosts of its qgZ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/status/error.h"

namespace ds {

struct ZeroConfig;

struct NearRanks {
  std::string key;  // that asks for it
  int64_t size = 0;
  bool operator==(const NearRanks&) const = default;
};
// What the keys say; nothing where they leave it to the hosts, or cut nothing.
std::optional<NearRanks> near_ranks(const ZeroConfig& zero);
// Ranks of a host are near each other, because nothing else is said of what wants neighbours.
bool is_near_by_host(const ZeroConfig& zero);

// Throws ConfigError where neighbourhoods of this size do not divide the ranks.
void check_near(const NearRanks& near, int64_t data_ranks);
// Hosts are the neighbourhoods, and this one's ranks, so many of all, are not as many as another's.
ConfigError unequal_hosts(int64_t ranks_of_host, int64_t ranks);
// Ranks in a neighbourhood, 1 where nothing is cut. ranks_of_host: of this one. ConfigError as
// above.
int64_t near_size(const ZeroConfig& zero, int64_t data_ranks, int64_t ranks_of_host);

}  // namespace ds
