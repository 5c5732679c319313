#include "config/sections/near_ranks.h"

#include <fmt/format.h>

#include "config/sections/zero.h"
#include "core/status/error.h"

namespace ds {

std::optional<NearRanks> near_ranks(const ZeroConfig& zero) {
  if (zero.stage != 3) return std::nullopt;
  if (zero.mics_shard_size > 0) {
    return NearRanks{"zero_optimization.mics_shard_size", zero.mics_shard_size};
  }
  if (zero.zero_hpz_partition_size > 1) {
    return NearRanks{"zero_optimization.zero_hpz_partition_size", zero.zero_hpz_partition_size};
  }
  return std::nullopt;
}

bool is_near_by_host(const ZeroConfig& zero) {
  return zero.stage == 3 && zero.zero_quantized_gradients && !near_ranks(zero);
}

void check_near(const NearRanks& near, int64_t data_ranks) {
  if (data_ranks % near.size == 0) return;
  throw ConfigError(fmt::format("{}: {} does not divide the {} ranks, expected a divisor of {}",
                                near.key, near.size, data_ranks, data_ranks));
}

ConfigError unequal_hosts(int64_t ranks_of_host, int64_t ranks) {
  return ConfigError(fmt::format(
      "zero_optimization.zero_quantized_gradients: gradients are summed on each host first, and "
      "hosts have different numbers of ranks ({} of {} are on this one); use as many on each, or "
      "say in zero_hpz_partition_size how many ranks are near each other",
      ranks_of_host, ranks));
}

int64_t near_size(const ZeroConfig& zero, int64_t data_ranks, int64_t ranks_of_host) {
  if (const std::optional<NearRanks> near = near_ranks(zero)) {
    check_near(*near, data_ranks);
    return near->size;
  }
  if (!is_near_by_host(zero)) return 1;
  if (data_ranks % ranks_of_host != 0) throw unequal_hosts(ranks_of_host, data_ranks);
  return ranks_of_host;
}

}  // namespace ds
