// Shares of tensor-parallel ranks.
#include "model/parallel/tensor_shard.h"

#include <numeric>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Sizes = std::vector<int64_t>;

TEST_CASE("attention weights keep whole key/value heads together", "[model]") {
  CHECK(tensor_shard_sizes(384, 4, {.layer = "layers.0.self_attn.q_proj", .kv_heads = 6}) ==
        Sizes{128, 128, 64, 64});
  CHECK(tensor_shard_sizes(384, 4, {.layer = "layers.0.mlp.dense", .kv_heads = 6}) ==
        Sizes{96, 96, 96, 96});
  CHECK(tensor_shard_sizes(101, 3, {.layer = "o_proj", .kv_heads = 6}) == Sizes{34, 34, 33});
}

TEST_CASE("the last rank takes what is left of a grain", "[model]") {
  CHECK(tensor_shard_sizes(101, 3, {.layer = "lm_head", .grain = 16}) == Sizes{32, 32, 37});
  CHECK(tensor_shard_sizes(7, 2, {.layer = "lm_head", .grain = 16}) == Sizes{4, 3});
}

TEST_CASE("shares always add up", "[model]") {
  for (const int64_t total : {1, 7, 100, 384, 50257}) {
    for (int ranks = 1; ranks < 9; ++ranks) {
      for (const int64_t grain : {1, 16, 64}) {
        const Sizes sizes =
            tensor_shard_sizes(total, ranks, {.layer = "q_proj", .kv_heads = 4, .grain = grain});
        CHECK(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == total);
      }
    }
  }
  CHECK_THROWS_AS(tensor_shard_sizes(4, 0, {.layer = ""}), ConfigError);
}

}  // namespace
}  // namespace ds
