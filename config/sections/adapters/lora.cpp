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

namespace {

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

}  // namespace

std::vector<LoraConflict> conflicts_of(const LoraConfig& c) {
  std::vector<LoraConflict> out;
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
