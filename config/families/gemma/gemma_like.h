// What families have in common whose config.json has the words of Gemma 2: see llama_like.h. For
// sources of families alone.
#pragma once

#include <cmath>

#include "config/families/llama/llama_like.h"

namespace ds::gemma_like {

template <class GemmaLike>
void fields(Visitor& v, GemmaLike& c) {
  llama_like::fields(v, c, {"gelu_pytorch_tanh", "gelu", "relu", "silu", "tanh", "quick_gelu"});
  v.field("sliding_window", c.sliding_window,
          {.meaning = "Keys that a query of a layer with a window sees, its own included.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  v.field("query_pre_attn_scalar", c.query_pre_attn_scalar,
          {.meaning = "Scores of attention are divided by its square root.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  if constexpr (requires { c.attn_logit_softcapping; }) {
    v.field("attn_logit_softcapping", c.attn_logit_softcapping,
            {.meaning = "Cap c of the scores s of attention, which become c tanh(s / c).",
             .effect = Effect::kUsed,
             .above = 0,
             .unset_meaning = "none"});
  }
  v.field("final_logit_softcapping", c.final_logit_softcapping,
          {.meaning = "Cap c of the logits l, which become c tanh(l / c).",
           .effect = Effect::kUsed,
           .above = 0,
           .unset_meaning = "none"});
}

// full_every: every so many-th layer sees all keys, the others a window of them.
template <class GemmaLike>
TransformerSpec transformer(const GemmaLike& c, int64_t full_every) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  spec.names.attention_out_norm = "post_attention_layernorm";
  spec.names.mlp_norm = "pre_feedforward_layernorm";
  spec.names.mlp_out_norm = "post_feedforward_layernorm";
  spec.norms.kind = NormKind::kRmsOnePlus;
  spec.factors = {.embedding = std::sqrt(static_cast<double>(c.hidden_size)),
                  .embedding_precision = FactorPrecision::kOfWeights};
  // That of head_dim is the usual one, for which there are faster kernels.
  if (c.query_pre_attn_scalar != c.head_dim) {
    spec.scores.scale = 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar));
  }
  if constexpr (requires { c.attn_logit_softcapping; }) {
    spec.scores.softcap = c.attn_logit_softcapping.value_or(0);
  }
  spec.head.logits_softcap = c.final_logit_softcapping.value_or(0);
  spec.window = SlidingWindow{.keys = c.sliding_window,
                              .full_every = full_every,
                              .full_layers = full_layers(c.layer_types)};
  return spec;
}

// transformers refuses configurations of these models whose heads do not divide the hidden state,
// although heads have a width of their own.
template <class GemmaLike>
std::vector<SizeConflict> size_conflicts(const GemmaLike& c) {
  std::vector<SizeConflict> found = llama_like::size_conflicts(c);
  add_unless_divides(found, "num_attention_heads", c.num_attention_heads, c.hidden_size,
                     "hidden_size");
  return found;
}

// Refuses what else is not built of models of that kind.
void refuse_others(const HfObject& object);

}  // namespace ds::gemma_like
