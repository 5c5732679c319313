// OPT (Zhang et al., arXiv 2205.01068) as Hugging Face's OPTForCausalLM computes it: GPT-2 with
// projections of their own, positions that begin two rows into their table, and an MLP whose layers
// are the block's; norms may also stand behind the sums, and the table of tokens be narrower.
#pragma once

#include <optional>

#include "config/families/spec/family.h"

namespace ds {

struct OptConfig {
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t hidden_size = 768;
  int64_t ffn_dim = 3072;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 50272;
  std::string activation_function = "relu";
  std::optional<int64_t> word_embed_proj_dim = {};  // unset: hidden_size
  bool do_layer_norm_before = true;
  bool enable_bias = true;
  double dropout = 0.1;
  double attention_dropout = 0.0;
  double init_std = 0.02;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, OptConfig& c);

template <>
struct Family<OptConfig> {
  static constexpr std::string_view kName = "opt";
  static constexpr HfClasses kClasses{.model = "OPTForCausalLM",
                                      .body = "OPTDecoder",
                                      .block = "OPTDecoderLayer",
                                      .attention = "OPTAttention",
                                      .mlp = "",
                                      .norm = "LayerNorm",
                                      .headless = "OPTModel"};
  static constexpr std::string_view kLayersKey = "num_hidden_layers";
  static std::span<const HfAlias> aliases() { return {}; }
  static ModelDimensions dimensions(const OptConfig& c);
  static void set_dimensions(OptConfig& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const OptConfig& c);
  static TransformerSpec transformer(const OptConfig& c);
  static void read_rest(const HfObject& object, OptConfig& c);
};

}  // namespace ds
