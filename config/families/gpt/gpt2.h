// GPT-2 (Radford et al., 2019) as Hugging Face's GPT2LMHeadModel computes it: learned positions,
// LayerNorm before each branch, Conv1D weights [in, out], an output projection that is tied.
#pragma once

#include <optional>

#include "config/families/spec/family.h"

namespace ds {

struct Gpt2Config {
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_embd = 768;
  std::optional<int64_t> n_inner = {};  // 4 * n_embd
  int64_t n_positions = 1024;
  int64_t vocab_size = 50257;
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, Gpt2Config& c);

template <>
struct Family<Gpt2Config> {
  static constexpr std::string_view kName = "gpt2";
  static constexpr HfClasses kClasses{.model = "GPT2LMHeadModel",
                                      .body = "GPT2Model",
                                      .block = "GPT2Block",
                                      .attention = "GPT2Attention",
                                      .mlp = "GPT2MLP",
                                      .norm = "LayerNorm",
                                      .linear = "Conv1D"};
  static constexpr std::string_view kLayersKey = "n_layer";
  static std::span<const HfAlias> aliases();
  static ModelDimensions dimensions(const Gpt2Config& c);
  static void set_dimensions(Gpt2Config& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const Gpt2Config& c);
  static TransformerSpec transformer(const Gpt2Config& c);
  static void read_rest(const HfObject& object, Gpt2Config& c);
};

}  // namespace ds
