// How a dimension is shared out over tensor-parallel ranks when it need not divide (pure).
// Attention weights keep whole key/value heads together; the others are cut in grains, the last
// rank taking what is left of a grain.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ds {

struct TensorShardRule {
  // Name of the weight's layer; "mlp", "w1", "lm_head", ... are not attention.
  std::string_view layer;
  std::optional<int64_t> kv_heads = std::nullopt;
  int64_t grain = 1;  // elements that must stay together
};

// Sizes per rank; their sum is `total`. Throws ConfigError for less than one rank or a grain
// below 1.
std::vector<int64_t> tensor_shard_sizes(int64_t total, int ranks, const TensorShardRule& rule);

}  // namespace ds
