// SmolLM3 (Hugging Face, 2025) as Hugging Face's SmolLM3ForCausalLM computes it: Llama of which
// every so many-th layer has no rotary positions (Yang et al., arXiv 2501.18795).
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct SmolLM3Config {
  int64_t num_hidden_layers = 36;
  int64_t num_attention_heads = 16;
  std::optional<int64_t> num_key_value_heads = 4;  // null: num_attention_heads
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 32768;
  int64_t vocab_size = 128256;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 2000000.0;
  std::optional<RopeScaling> rope_scaling = {};
  int64_t no_rope_layer_interval = 4;
  // 1 for a layer with rotary positions, 0 for one without; null: as the interval says.
  std::optional<std::vector<int64_t>> no_rope_layers = {};
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, SmolLM3Config& c);

template <>
struct Family<SmolLM3Config> : LlamaLike<SmolLM3Config> {
  static constexpr std::string_view kName = "smollm3";
  static constexpr HfClasses kClasses{.model = "SmolLM3ForCausalLM",
                                      .body = "SmolLM3Model",
                                      .block = "SmolLM3DecoderLayer",
                                      .attention = "SmolLM3Attention",
                                      .mlp = "SmolLM3MLP",
                                      .norm = "SmolLM3RMSNorm"};
  static void set_dimensions(SmolLM3Config& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const SmolLM3Config& c);
  static TransformerSpec transformer(const SmolLM3Config& c);
  static void read_rest(const HfObject& object, SmolLM3Config& c);
};

}  // namespace ds
