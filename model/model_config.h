// The architecture of a language model in the words of its Hugging Face config.json: one plain
// struct per family, field names unchanged. check() refuses what cannot be built, naming field,
// value and fix.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace ds {

// GPT2LMHeadModel. Dropout defaults to 0 here; a config.json that is silent means Hugging Face's
// 0.1.
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 0: 4 * n_embd
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0;
  double embd_pdrop = 0;
  double attn_pdrop = 0;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};

// LlamaForCausalLM.
struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t max_position_embeddings = 2048;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  double attention_dropout = 0;
  bool mlp_bias = false;
};

using ModelConfig = std::variant<Gpt2Config, LlamaConfig>;

// What every family has.
struct ModelDimensions {
  int64_t vocabulary = 0;
  int64_t positions = 0;  // longest sequence
  int64_t width = 0;      // of the residual stream
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t inner = 0;  // of the MLP
};
ModelDimensions dimensions(const ModelConfig& config);

// Throws ConfigError ("model.n_embd = 64 is not a multiple of ...") or Unsupported.
void check(const ModelConfig& config);

}  // namespace ds
