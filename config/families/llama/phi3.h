// Phi-3, Phi-3.5 and Phi-4-mini (Abdin et al., arXiv 2404.14219) as Hugging Face's Phi3ForCausalLM
// computes them: Llama whose folders join queries, keys and values, and gate and up, with dropout
// of branches and heads of which a share turns.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Phi3Config {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // num_attention_heads
  int64_t hidden_size = 3072;
  int64_t intermediate_size = 8192;
  int64_t max_position_embeddings = 4096;
  int64_t original_max_position_embeddings = 4096;  // that of rope_scaling has to be equal
  int64_t vocab_size = 32064;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1;
  std::optional<RopeScaling> rope_scaling = {};
  std::optional<int64_t> sliding_window = {};
  double resid_pdrop = 0.0;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Phi3Config& c);

template <>
struct Family<Phi3Config> : LlamaLike<Phi3Config> {
  static constexpr std::string_view kName = "phi3";
  static constexpr HfClasses kClasses{.model = "Phi3ForCausalLM",
                                      .body = "Phi3Model",
                                      .block = "Phi3DecoderLayer",
                                      .attention = "Phi3Attention",
                                      .mlp = "Phi3MLP",
                                      .norm = "Phi3RMSNorm"};
  static std::vector<SizeConflict> size_conflicts(const Phi3Config& c);
  static TransformerSpec transformer(const Phi3Config& c);
  static void read_rest(const HfObject& object, Phi3Config& c);
};

}  // namespace ds
