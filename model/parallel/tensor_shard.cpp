// Tensor-parallel shares.
#include "model/parallel/tensor_shard.h"

#include <algorithm>
#include <array>

#include "core/status/error.h"

namespace ds {

namespace {

// Expert and feed-forward weights, and the output projections, are cut near evenly whatever the
// heads.
bool follows_heads(std::string_view layer) {
  constexpr std::array<std::string_view, 7> kFeedForward = {
      "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "mlp"};
  const bool feed_forward = std::ranges::any_of(kFeedForward, [&](std::string_view part) {
    return layer.find(part) != std::string_view::npos;
  });
  return !feed_forward && layer != "lm_head" && layer != "embed_out";
}

int64_t even_share(int64_t total, int ranks, int rank) {
  return total / ranks + (rank < total % ranks ? 1 : 0);
}

}  // namespace

std::vector<int64_t> tensor_shard_sizes(int64_t total, int ranks, const TensorShardRule& rule) {
  if (ranks < 1 || rule.grain < 1 || total < 0) {
    throw ConfigError(fmt::format("tensor shard: {} elements over {} ranks in grains of {}", total,
                                  ranks, rule.grain));
  }
  const bool by_heads = rule.kv_heads && *rule.kv_heads > 0 && total % *rule.kv_heads == 0 &&
                        follows_heads(rule.layer);
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) {
    if (by_heads) {
      sizes.push_back(total / *rule.kv_heads * even_share(*rule.kv_heads, ranks, rank));
    } else if (total >= rule.grain) {
      const int64_t rest = rank == ranks - 1 ? total % rule.grain : 0;
      sizes.push_back(even_share(total / rule.grain, ranks, rank) * rule.grain + rest);
    } else {
      sizes.push_back(even_share(total, ranks, rank));
    }
  }
  return sizes;
}

}  // namespace ds
