#include "config/sections/adapters/lora.h"

#include <fmt/format.h>

#include <cmath>

#include "core/status/error.h"

namespace ds {

std::span<const EnumName> names_of(AdapterBias) {
  static constexpr EnumName kNames[] = {
      {"none", static_cast<int>(AdapterBias::kNone)},
      {"all", static_cast<int>(AdapterBias::kAll)},
      {"lora_only", static_cast<int>(AdapterBias::kLoraOnly)},
  };
  return kNames;
}

std::span<const EnumName> names_of(BaseFormat) {
  static constexpr EnumName kNames[] = {
      {"model", static_cast<int>(BaseFormat::kModel)},
      {"nf4", static_cast<int>(BaseFormat::kNf4)},
      {"int8", static_cast<int>(BaseFormat::kInt8)},
      {"fp8", static_cast<int>(BaseFormat::kFp8)},
  };
  return kNames;
}

namespace {

void fields_of_base(Visitor& v, LoraConfig& c) {
  v.field("base_format", c.base_format,
          {.meaning = "As what the frozen weights of linear layers are kept, the head's excepted: "
                      "as the model's others (model), or in blocks with a scale each, of 4 bits "
                      "(nf4, as QLoRA has it), int8, or fp8 (e4m3).",
           .effect = Effect::kUsed});
  v.field("base_block", c.base_block,
          {.meaning = "How many consecutive weights share a scale: a multiple of 32.",
           .effect = Effect::kUsed,
           .min = 32,
           .max = 4096,
           .synonyms = {"bnb_4bit_blocksize", "group_size"},
           .unset_meaning = "64 of nf4, 256 of int8, 512 of fp8"});
  v.field("double_quantization", c.double_quantization,
          {.meaning = "Whether the scales of nf4 take 8 bits each instead of 32: 4.125 bits a "
                      "weight with blocks of 64, instead of 4.5.",
           .effect = Effect::kUsed,
           .synonyms = {"bnb_4bit_use_double_quant"}});
  v.field("load_in_4bit", c.load_in_4bit,
          {.meaning = "bitsandbytes' word for base_format nf4.", .effect = Effect::kUsed});
  v.field("load_in_8bit", c.load_in_8bit,
          {.meaning = "bitsandbytes' word for base_format int8.", .effect = Effect::kUsed});
  v.field("bnb_4bit_quant_type", c.bnb_4bit_quant_type,
          {.meaning = "bitsandbytes' word for the levels of load_in_4bit: nf4; others are refused.",
           .effect = Effect::kUsed,
           .unset_meaning = "nf4"});
  v.field("bnb_4bit_compute_dtype", c.bnb_4bit_compute_dtype,
          {.meaning = "In which type bitsandbytes computes with what its codes stand for.",
           .effect = Effect::kAlwaysSo,
           .here = "it is the type that the model computes with (bf16, fp16)",
           .unset_meaning = "none"});
  v.field("q_bits", c.q_bits,
          {.meaning = "DeepSpeed's word for base_format fp8: 8, with mantissa_bits 3.",
           .effect = Effect::kUsed,
           .unset_meaning = "none"});
  v.field("mantissa_bits", c.mantissa_bits,
          {.meaning = "Of those of q_bits: 3.", .effect = Effect::kUsed, .unset_meaning = "none"});
}

void fields_of_layers(Visitor& v, LoraConfig& c) {
  v.field("target_modules", c.target_modules,
          {.meaning = "Which linear layers have adapters: ends of the paths of modules, in whole "
                      "words (\"q_proj\"), regular expressions of whole paths, or \"all-linear\": "
                      "all of the blocks.",
           .effect = Effect::kUsed,
           .synonyms = {"lora_target_modules", "target_mods"},
           .one_or_list = true});
  v.field("exclude_modules", c.exclude_modules,
          {.meaning = "Which of those have none, said in the same way.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("rank_pattern", c.rank_pattern,
          {.meaning = "Ranks of their own: regular expressions of the ends of paths, each with its "
                      "rank.",
           .effect = Effect::kUsed,
           .object_only = true});
  v.field("alpha_pattern", c.alpha_pattern,
          {.meaning = "Alphas of their own, said in the same way.",
           .effect = Effect::kUsed,
           .object_only = true});
  v.field("layers_to_transform", c.layers_to_transform,
          {.meaning = "Numbers of the blocks whose layers have adapters.",
           .effect = Effect::kUsed,
           .min = 0,
           .one_or_list = true,
           .unset_meaning = "all"});
  v.field("layers_pattern", c.layers_pattern,
          {.meaning = "The name of the list of blocks that layers_to_transform counts in "
                      "(\"layers\").",
           .effect = Effect::kUsed,
           .one_or_list = true,
           .unset_meaning = "any"});
  v.field("modules_to_save", c.modules_to_save,
          {.meaning = "Modules that train as a whole, and are saved with the adapters: ends of "
                      "paths in whole words (\"lm_head\", \"embed_tokens\").",
           .effect = Effect::kUsed,
           .one_or_list = true});
}

// What DeepSpeed's LoRAConfig says beside peft's words.
void deepspeed_fields(Visitor& v, LoraConfig& c) {
  v.field("base_weight_sharding", c.base_weight_sharding,
          {.meaning = "Over how many ranks DeepSpeed cuts a frozen weight.",
           .effect = Effect::kAlwaysSo,
           .here = "stage 3 of zero_optimization cuts frozen weights over all ranks, and others "
                   "do not"});
  v.field("offload", c.offload,
          {.meaning = "Whether DeepSpeed keeps frozen weights in the host's memory.",
           .effect = Effect::kAlwaysSo,
           .here = "zero_optimization.offload_param does that"});
  v.field("offload_ratio", c.offload_ratio,
          {.meaning = "The part of them that it keeps there.",
           .effect = Effect::kAlwaysSo,
           .here = "zero_optimization.offload_param does that"});
  v.field("delay_lora_init", c.delay_lora_init,
          {.meaning = "Whether a program begins adapters by itself, later.",
           .effect = Effect::kAlwaysSo,
           .here = "adapters begin with the run"});
}

}  // namespace

void fields(Visitor& v, LoraConfig& c) {
  v.field("r", c.rank,
          {.meaning = "The rank: A is [r, inputs], and B [outputs, r].",
           .effect = Effect::kUsed,
           .min = 1,
           .max = 65536,
           .synonyms = {"lora_r", "rank"}});
  v.field("lora_alpha", c.alpha,
          {.meaning = "What an adapter gives is multiplied by lora_alpha / r.",
           .effect = Effect::kUsed,
           .above = 0,
           .synonyms = {"alpha"}});
  v.field("lora_dropout", c.dropout,
          {.meaning = "The part of an adapter's inputs that is dropped in training.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1,
           .synonyms = {"dropout"}});
  fields_of_layers(v, c);
  v.field("bias", c.bias,
          {.meaning = "Which biases train: none, all, or those of layers with adapters.",
           .effect = Effect::kUsed});
  v.field("use_rslora", c.scales_by_root,
          {.meaning = "Whether what an adapter gives is multiplied by lora_alpha / sqrt(r) "
                      "instead (arXiv 2312.03732).",
           .effect = Effect::kUsed});
  v.field("use_dora", c.has_magnitudes,
          {.meaning = "Whether the sum of weight and adapter is brought to a length for each "
                      "output, which trains, too (DoRA, arXiv 2402.09353).",
           .effect = Effect::kUsed});
  v.field("init_lora_weights", c.init_lora_weights,
          {.meaning = "How adapters begin: true, with zeros for B, so that the model is what it "
                      "was; \"gaussian\", the same with another A; or false, with a random B.",
           .effect = Effect::kUsed});
  fields_of_base(v, c);
  deepspeed_fields(v, c);
  v.field("adapter", c.adapter,
          {.meaning = "A folder as peft writes it, with whose adapters training begins; what they "
                      "are, its adapter_config.json says.",
           .effect = Effect::kUsed});
}

namespace {

constexpr std::string_view kGaussian = "gaussian";

// Adds what is wrong with an object of patterns and numbers.
void check_numbers(std::string_view key, const Value& patterns, bool are_whole,
                   std::vector<LoraConflict>& out) {
  for (const Member& member : patterns.members()) {
    const Value& value = member.value;
    const bool is_whole = value.kind() == Value::Kind::kInteger;
    const bool is_number = is_whole || value.kind() == Value::Kind::kNumber;
    if (!is_number || (are_whole && !is_whole) || !(value.as_number() > 0)) {
      out.push_back({std::string(key),
                     fmt::format("\"{}\" is {}, expected {} above 0", member.key, value.excerpt(),
                                 are_whole ? "a whole number" : "a number")});
    }
  }
}

// Every word that is said of the base has to mean the same format.
void check_base(const LoraConfig& c, std::vector<LoraConflict>& out) {
  constexpr int64_t kBits = 8, kMantissa = 3, kWeightsPerStep = 32;
  const BaseFormat format = base_format_of(c);
  const auto check = [&](std::string_view key, bool is_said, BaseFormat means) {
    if (!is_said || format == means) return;
    out.push_back({std::string(key),
                   "and another key of lora name different formats of the base; "
                   "remove one of them"});
  };
  check("load_in_4bit", c.load_in_4bit, BaseFormat::kNf4);
  check("load_in_8bit", c.load_in_8bit, BaseFormat::kInt8);
  check("q_bits", c.q_bits.has_value(), BaseFormat::kFp8);
  if (c.q_bits.value_or(kBits) != kBits) {
    out.push_back({"q_bits", fmt::format("{}, expected 8, which is fp8; of 4 bits there is "
                                         "base_format nf4",
                                         *c.q_bits)});
  }
  if (c.mantissa_bits.value_or(kMantissa) != kMantissa) {
    out.push_back({"mantissa_bits", fmt::format("{}, expected 3", *c.mantissa_bits)});
  }
  if (c.bnb_4bit_quant_type.value_or("nf4") != "nf4") {
    out.push_back(
        {"bnb_4bit_quant_type", fmt::format("\"{}\", expected \"nf4\"", *c.bnb_4bit_quant_type)});
  }
  if (c.mantissa_bits && !c.q_bits) out.push_back({"mantissa_bits", "needs q_bits"});
  if (c.base_block.value_or(kWeightsPerStep) % kWeightsPerStep != 0) {
    out.push_back({"base_block",
                   fmt::format("{}, expected a multiple of {}", *c.base_block, kWeightsPerStep)});
  }
}

}  // namespace

BaseFormat base_format_of(const LoraConfig& c) {
  if (c.base_format != BaseFormat::kModel) return c.base_format;
  if (c.load_in_4bit) return BaseFormat::kNf4;
  if (c.load_in_8bit) return BaseFormat::kInt8;
  return c.q_bits ? BaseFormat::kFp8 : BaseFormat::kModel;
}

int64_t base_block_of(const LoraConfig& c) {
  switch (base_format_of(c)) {
    case BaseFormat::kModel:
    case BaseFormat::kNf4:
      return c.base_block.value_or(64);
    case BaseFormat::kInt8:
      return c.base_block.value_or(256);
    case BaseFormat::kFp8:
      return c.base_block.value_or(512);
  }
  throw InternalError("unknown format of a base");
}

std::vector<LoraConflict> conflicts_of(const LoraConfig& c) {
  std::vector<LoraConflict> out;
  check_base(c, out);
  check_numbers("rank_pattern", c.rank_pattern, true, out);
  check_numbers("alpha_pattern", c.alpha_pattern, false, out);
  const Value& start = c.init_lora_weights;
  const bool is_known = start.kind() == Value::Kind::kBoolean ||
                        (start.is_string() && start.as_string() == kGaussian);
  if (!is_known) {
    out.push_back({"init_lora_weights",
                   fmt::format("{} is none of true, false and \"gaussian\"", start.excerpt())});
  }
  if (!c.layers_pattern.empty() && c.layers_to_transform.empty()) {
    out.push_back({"layers_pattern",
                   "needs layers_to_transform, which says the numbers of the blocks in it"});
  }
  if (c.target_modules.empty()) {
    out.push_back({"target_modules", "is an empty list, and no layer would have an adapter"});
  }
  if (!out.empty()) return out;
  try {
    const AdapterRules rules(adapter_spec(c));
  } catch (const ConfigError& error) {
    const std::string what = error.what();  // "lora.KEY: ..."
    const size_t dot = what.find('.'), colon = what.find(": ");
    out.push_back({what.substr(dot + 1, colon - dot - 1), what.substr(colon + 2)});
  }
  return out;
}

AdapterSpec adapter_spec(const LoraConfig& c) {
  AdapterSpec spec{.rank = c.rank,
                   .alpha = c.alpha,
                   .dropout = c.dropout,
                   .targets = c.target_modules,
                   .excluded = c.exclude_modules,
                   .scales_by_root = c.scales_by_root,
                   .has_magnitudes = c.has_magnitudes,
                   .layers = c.layers_to_transform,
                   .layer_lists = c.layers_pattern,
                   .saved_modules = c.modules_to_save,
                   .bias = c.bias,
                   .folder = c.adapter};
  for (const Member& member : c.rank_pattern.members()) {
    spec.ranks.emplace_back(member.key, member.value.as_integer());
  }
  for (const Member& member : c.alpha_pattern.members()) {
    spec.alphas.emplace_back(member.key, member.value.as_number());
  }
  if (c.init_lora_weights.is_string()) {
    spec.start = AdapterStart::kGaussian;
  } else if (!c.init_lora_weights.as_boolean()) {
    spec.start = AdapterStart::kRandom;
  }
  return spec;
}

}  // namespace ds
