// What OLMo 2 and 3 have in common; see llama_like.h. For sources of families alone.
#pragma once

#include "config/families/llama/llama_like.h"

namespace ds::olmo_like {

template <class Config>
TransformerSpec transformer(const Config& c) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  spec.names.attention_norm = spec.names.mlp_norm = "";
  spec.names.attention_out_norm = "post_attention_layernorm";
  spec.names.mlp_out_norm = "post_feedforward_layernorm";
  spec.head_norms =
      HeadNorms{.queries = "q_norm", .keys = "k_norm", .extent = HeadNorms::Extent::kAllHeads};
  return spec;
}

}  // namespace ds::olmo_like
