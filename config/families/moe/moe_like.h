// What families have in common whose blocks have experts; the rest of their words is Llama's (see
// llama_like.h). For sources of families alone.
#pragma once

#include <fmt/format.h>

#include <array>

#include "config/families/llama/llama_like.h"
#include "config/families/spec/experts.h"
#include "config/families/spec/hf_object.h"

namespace ds::moe_like {

// How many experts there are, by whatever name.
template <class Config>
auto experts(Config& c) {
  if constexpr (requires { c.num_local_experts; }) {
    return llama_like::Named{"num_local_experts", c.num_local_experts};
  } else {
    return llama_like::Named{"num_experts", c.num_experts};
  }
}

// transformers takes either name, and writes the other one of a Qwen3-MoE than its models have.
inline constexpr std::array<HfAlias, 1> kAliases{{{"num_local_experts", "num_experts"}}};
inline constexpr std::array<HfAlias, 1> kAliasesOfLocal{{{"num_experts", "num_local_experts"}}};

// The width of an expert, which a family without dense layers calls that of the MLP.
template <class Config>
int64_t inner_width(const Config& c) {
  if constexpr (requires { c.moe_intermediate_size; }) {
    return c.moe_intermediate_size;
  } else {
    return c.intermediate_size;
  }
}

template <class Config>
void layer_fields(Visitor& v, Config& c) {
  if constexpr (requires { c.decoder_sparse_step; }) {
    v.field("decoder_sparse_step", c.decoder_sparse_step,
            {.meaning = "Every how many layers the MLP is experts.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kMostLayers});
    v.field("mlp_only_layers", c.mlp_only_layers,
            {.meaning = "Layers, from 0, whose MLP is dense all the same.",
             .effect = Effect::kUsed,
             .min = 0,
             .max = kMostLayers});
  }
}

template <class Config>
void fields(Visitor& v, Config& c) {
  llama_like::fields(v, c);
  const auto count = experts(c);
  v.field(count.key, count.member,
          {.meaning = "Experts of each layer that has some.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostExperts});
  v.field("num_experts_per_tok", c.num_experts_per_tok,
          {.meaning = "Experts that each token goes through.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostExpertChoices});
  if constexpr (requires { c.moe_intermediate_size; }) {
    v.field("moe_intermediate_size", c.moe_intermediate_size,
            {.meaning = "Width of an expert.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kLargestInnerWidth});
  }
  if constexpr (requires { c.shared_expert_intermediate_size; }) {
    v.field("shared_expert_intermediate_size", c.shared_expert_intermediate_size,
            {.meaning = "Width of the expert that all tokens go through.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kLargestInnerWidth});
  }
  if constexpr (requires { c.norm_topk_prob; }) {
    v.field("norm_topk_prob", c.norm_topk_prob,
            {.meaning = "The weights of a token's experts are divided by their sum.",
             .effect = Effect::kUsed});
  }
  layer_fields(v, c);
}

// What of the experts does not fit, beside what of Llama's words does not.
template <class Config>
std::vector<SizeConflict> size_conflicts(const Config& c) {
  std::vector<SizeConflict> found = llama_like::size_conflicts(c);
  const auto count = experts(c);
  if (c.num_experts_per_tok > count.member) {
    found.push_back({"num_experts_per_tok", fmt::format("{}, but {} is {}", c.num_experts_per_tok,
                                                        count.key, count.member)});
  }
  if (count.member > 0 && inner_width(c) > kLargestExpertWidth / count.member) {
    found.push_back({count.key, fmt::format("{} of width {}, expected at most {} together",
                                            count.member, inner_width(c), kLargestExpertWidth)});
  }
  return found;
}

// Experts of every layer but the dense ones.
template <class Config>
ExpertsSpec spec(const Config& c) {
  ExpertsSpec spec{
      .count = experts(c).member, .choices = c.num_experts_per_tok, .inner = inner_width(c)};
  if constexpr (requires { c.norm_topk_prob; }) spec.sums_to_one = c.norm_topk_prob;
  if constexpr (requires { c.decoder_sparse_step; }) {
    spec.layers = {.every = c.decoder_sparse_step, .without = c.mlp_only_layers};
  }
  if constexpr (requires { c.shared_expert_intermediate_size; }) {
    spec.shared = SharedExpertSpec{.name = "shared_expert",
                                   .gate = "shared_expert_gate",
                                   .inner = c.shared_expert_intermediate_size};
  }
  return spec;
}

// Refuses what config.json may say of routers that is not built.
void refuse_router_words(const HfObject& object);
// The list under "mlp_only_layers"; DataError unless it is one of numbers of layers.
std::vector<int64_t> dense_layers(const HfObject& object);

}  // namespace ds::moe_like
