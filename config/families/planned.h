// Families that configurations may name and that this build does not have: their words are known,
// so that a run is refused for what is missing, and not for a key.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/families/gpt/gpt2.h"

namespace ds {

struct EnumName;

enum class MoeMlpType : int { kStandard, kResidual };
std::span<const EnumName> names_of(MoeMlpType);

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

std::vector<SizeConflict> size_conflicts(const BertConfig& config);

}  // namespace ds
