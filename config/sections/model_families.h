// The architecture of a model in the words of its Hugging Face config.json: one plain struct per
// family, field names unchanged. The model section of a configuration and a config.json
// (hf_config.h) are read by the same fields(), and model/ builds from the structs as they are.
// Includes no reader: whoever builds a model needs none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ds {

class Visitor;
struct EnumName;

enum class ModelFamily : int { kGpt2, kLlama, kBert, kMoeGpt, kResNet };
std::span<const EnumName> names_of(ModelFamily);
enum class MoeMlpType : int { kStandard, kResidual };
std::span<const EnumName> names_of(MoeMlpType);

// GPT2LMHeadModel.
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
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, Gpt2Config& c);

// LlamaForCausalLM.
struct LlamaConfig {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // num_attention_heads
  int64_t hidden_size = 4096;
  std::optional<int64_t> head_dim = {};  // hidden_size / num_attention_heads
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 32000;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, LlamaConfig& c);

struct BertConfig {
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  int64_t vocab_size = 30522;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
};
void fields(Visitor& v, BertConfig& c);

// GPT-2 with mixture-of-experts layers; the names of the expert flags are those of DeepSpeed's MoE
// layer.
struct MoeGptConfig {
  Gpt2Config gpt2 = {};
  std::vector<int64_t> num_experts = {1};  // per MoE layer, or one number for all
  int64_t expert_interval = 2;             // every how many layers is a MoE layer
  int64_t k = 1;                           // experts per token
  double capacity_factor = 1.0;
  double eval_capacity_factor = 1.0;
  int64_t min_capacity = 4;
  double moe_loss_coeff = 0.01;
  bool drop_tokens = true;
  MoeMlpType mlp_type = MoeMlpType::kStandard;
};
void fields(Visitor& v, MoeGptConfig& c);

struct ResNetConfig {
  int64_t num_channels = 3;
  int64_t embedding_size = 64;
  std::vector<int64_t> hidden_sizes = {256, 512, 1024, 2048};
  std::vector<int64_t> depths = {3, 4, 6, 3};
  std::string layer_type = "bottleneck";
  int64_t image_size = 224;
  int64_t num_labels = 1000;
};
void fields(Visitor& v, ResNetConfig& c);

// The families that this build has.
using ModelConfig = std::variant<Gpt2Config, LlamaConfig>;

// What every family has; what is not given is derived here, once.
struct ModelDimensions {
  int64_t vocabulary = 0;
  int64_t positions = 0;  // longest sequence
  int64_t width = 0;      // of the residual stream
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t inner = 0;             // of the MLP
  double attention_dropout = 0;  // of probabilities, in training
};
ModelDimensions dimensions(const ModelConfig& config);
// The list of the blocks, as their parameters are named: "transformer.h".
std::string_view block_list(const ModelConfig& config);
bool ties_embeddings(const ModelConfig& config);  // the head's weight is the embedding's table

// Sizes that do not fit each other: the key that is refused, and why. Sizes out of their own range
// are passed over.
struct SizeConflict {
  std::string_view key;
  std::string why;
};
std::vector<SizeConflict> size_conflicts(const ModelConfig& config);
std::vector<SizeConflict> size_conflicts(const BertConfig& config);

// Throws ConfigError ("model.n_head: 3 does not divide ...", the first word being `where`) for a
// size out of its range or that does not fit the others, Unsupported for a name that this build
// does not have.
void check(const ModelConfig& config, std::string_view where = "model.");

}  // namespace ds
