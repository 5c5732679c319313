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

}  // namespace ds
