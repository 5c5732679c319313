// Mixture-of-experts gating (pure): which experts a token goes to, in which slot of their buffers,
// with which weight, and the load balance loss. fp32 softmax; equal scores go to the lower index.
// Sources: top-1: Fedus et al. (arXiv 2101.03961); top-2: Lepikhin et al. (arXiv 2006.16668); rules
// of capacity and dropping as DeepSpeed's. Dispatch and combine on devices are kernels/moe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/values/rng.h"

namespace ds {

enum class GateRule {
  kTop1,  // weight = the expert's softmax; used_tokens and random token selection apply
  kTop2,  // first choices get slots before second choices; weights of the two sum to 1
  kTopK,  // all choices compete alike; weights of the kept sum to 1
};
enum class TokenDrop { kOverCapacity, kNever };
// Who stays when an expert is over capacity (kTopK): the largest softmax, or the first tokens.
enum class DropPolicy { kProbability, kPosition };

struct GateOptions {
  GateRule rule = GateRule::kTop1;
  int k = 1;  // for kTopK; kTop1 and kTop2 say it themselves
  double capacity_factor = 1.0;
  int64_t min_capacity = 8;
  TokenDrop drop = TokenDrop::kOverCapacity;
  DropPolicy policy = DropPolicy::kProbability;
  std::span<const uint8_t> used_tokens = {};  // kTop1: empty, or 1 per token that takes part
  // kTop1: over capacity, keep random tokens instead of the first ones; nullptr: the first ones.
  const Rng* token_selection = nullptr;
  // kTop2: sample the second expert (Gumbel noise on its logits); nullptr: the second largest.
  const Rng* second_expert = nullptr;
};

struct Gate {
  int k = 1;
  int64_t tokens = 0, experts = 0;
  int64_t capacity = 0;                     // slots per expert
  float aux_loss = 0;                       // experts * sum_e mean(softmax_e) * mean(routed_e) / k
  std::vector<int64_t> expert_counts = {};  // tokens that chose the expert, before dropping
  // [k, tokens]: choice j of token t is at j * tokens + t. Dropped: expert -1, slot 0, weight 0.
  std::vector<int32_t> expert = {};
  std::vector<int32_t> slot = {};
  std::vector<float> weight = {};
};

// max(ceil(tokens / experts * factor), min_capacity); the product in fp32, as the reference has it.
int64_t expert_capacity(int64_t tokens, int64_t experts, double factor, int64_t min_capacity);

// logits: [tokens, experts] row-major. kTopK's and kTop2's capacity factor is per choice: it is
// multiplied by k. Throws ConfigError when k is more than the experts, and for kTop1 when there are
// fewer tokens than min_capacity.
Gate gate(std::span<const float> logits, int64_t tokens, int64_t experts,
          const GateOptions& options);

// Expert buffers [experts, capacity, width] from hidden states [tokens, width]; empty slots are 0.
std::vector<float> encode_tokens(const Gate& gate, std::span<const float> hidden, int64_t width);
// Weighted sum of the experts' outputs [experts, capacity, width] per token: [tokens, width].
std::vector<float> decode_tokens(const Gate& gate, std::span<const float> expert_output,
                                 int64_t width);

}  // namespace ds
