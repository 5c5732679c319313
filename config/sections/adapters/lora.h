// Low-rank adapters: which layers have some, and which (config/families/spec/adapters.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/families/spec/adapters.h"
#include "config/reader/enum_name.h"
#include "config/reader/fields.h"

namespace ds {

// As what the frozen weights of linear layers are kept, the head's excepted.
enum class BaseFormat : int {
  kModel,  // as the model's others are
  kNf4,    // 4 bits a weight (QLoRA, arXiv 2305.14314)
  kInt8,
  kFp8,
};

std::span<const EnumName> names_of(AdapterBias);
std::span<const EnumName> names_of(BaseFormat);

// The keys are those of peft's LoraConfig.
struct LoraConfig {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  std::vector<std::string> target_modules{std::string(AdapterSpec::kAllLinear)};
  std::vector<std::string> exclude_modules;
  bool scales_by_root = false, has_magnitudes = false;
  Value rank_pattern, alpha_pattern;  // objects: a pattern -> a number
  std::vector<int64_t> layers_to_transform;
  std::vector<std::string> layers_pattern;
  std::vector<std::string> modules_to_save;
  AdapterBias bias = AdapterBias::kNone;
  Value init_lora_weights = Value::boolean(true);  // or false, or "gaussian"
  std::optional<std::string> adapter;
  BaseFormat base_format = BaseFormat::kModel;
  std::optional<int64_t> base_block;
  bool double_quantization = true;
  bool load_in_4bit = false, load_in_8bit = false;
  std::optional<int64_t> q_bits, mantissa_bits;
  std::optional<std::string> bnb_4bit_quant_type, bnb_4bit_compute_dtype;
  int64_t base_weight_sharding = 1;
  bool offload = false;
  double offload_ratio = 0;
  bool delay_lora_init = false;
};
void fields(Visitor& v, LoraConfig& c);

// What is wrong with it that a single value does not show: the key, and what.
struct LoraConflict {
  std::string key, why;
};
std::vector<LoraConflict> conflicts_of(const LoraConfig& c);
// As what one without conflicts says that the base is kept, in whichever words.
BaseFormat base_format_of(const LoraConfig& c);
// Consecutive weights that share a scale: base_block, or as many as the format usually has.
int64_t base_block_of(const LoraConfig& c);
// The adapters of one without conflicts.
AdapterSpec adapter_spec(const LoraConfig& c);

}  // namespace ds
