#include "train/settings/adapter_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/status/error.h"
#include "core/text/join_some.h"
#include "model/families/zoo.h"

namespace ds {
namespace {

constexpr size_t kNamedAtMost = 8;

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> without_repeats(const std::vector<std::string>& list) {
  std::vector<std::string> once;
  for (const std::string& one : list) {
    if (std::ranges::find(once, one) == once.end()) once.push_back(one);
  }
  return once;
}

std::vector<std::string> words_of(const std::vector<std::string>& modules) {
  std::vector<std::string> words;
  for (const std::string& module : modules) words.push_back(last_word(module));
  return without_repeats(words);
}

// The model with these adapters in the place of its own.
ModelConfig with_adapters(const ModelConfig& model, AdapterSpec spec) {
  ModelConfig other = model;
  other.adapters = std::move(spec);
  return other;
}

// The layers that adapters can be beside.
std::vector<std::string> linear_modules(const ModelConfig& model) {
  return adapted_modules(with_adapters(model, {}));
}

std::vector<std::string> all_modules(const ModelConfig& model) {
  std::vector<std::string> modules;
  for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
    modules.emplace_back(module_of_parameter(spec.name));
  }
  return without_repeats(modules);
}

bool fits_one(const std::string& target, const std::vector<std::string>& modules) {
  const AdapterRules rules({.targets = {target}});
  return std::ranges::any_of(modules,
                             [&](const std::string& m) { return rules.adapter_of(m).has_value(); });
}

// peft trains a copy of the table, which the head then has no part of, where here the two stay one.
void require_untied(const ModelConfig& model) {
  const AdapterRules rules(*model.adapters);
  const std::string table = token_table(model);
  if (!ties_embeddings(model) || !rules.trains(table, false)) return;
  throw Unsupported(fmt::format(
      "lora.modules_to_save: {} is also the model's head (tie_word_embeddings), and a folder of "
      "adapters cannot say so; leave it out, or train the model without lora",
      module_of_parameter(table)));
}

// Returns those that are no modules of the model, which only a folder may name: peft adds all names
// that heads of a task have.
std::vector<std::string> idle_saved_modules(const ModelConfig& model) {
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  std::vector<std::string> idle;
  for (const std::string& saved : model.adapters->saved_modules) {
    const AdapterRules rules({.saved_modules = {saved}});
    const bool has_one = std::ranges::any_of(specs, [&](const ParamSpec& spec) {
      return !is_adapter_parameter(spec.name) && rules.trains(spec.name, false);
    });
    if (!has_one) idle.push_back(saved);
  }
  if (idle.empty() || model.adapters->folder) return idle;
  throw ConfigError(fmt::format(
      "lora.modules_to_save: \"{}\" is no module of the model; there are {}", idle.front(),
      join_some(words_of(all_modules(with_adapters(model, {.targets = {}}))), kNamedAtMost)));
}

// A folder of adapters has no names for experts, which are stacked here.
void require_frozen_experts(const ModelConfig& model) {
  for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
    if (spec.pieces.empty() || !spec.trains) continue;
    throw Unsupported(
        fmt::format("lora.modules_to_save: {} has all experts of a layer, which a folder of "
                    "adapters cannot hold; leave it out, or train the model without lora",
                    spec.name));
  }
}

void require_layers(const ModelConfig& model) {
  const int64_t count = dimensions(model).layers;
  for (const int64_t layer : model.adapters->layers) {
    if (layer < count) continue;
    throw ConfigError(
        fmt::format("lora.layers_to_transform: {}, but the model has {} blocks, numbered from 0",
                    layer, count));
  }
}

}  // namespace

std::vector<std::string> adapted_modules(const ModelConfig& model) {
  std::vector<std::string> modules;
  for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
    const std::string end = fmt::format(".{}.weight", adapter_names::kA);
    if (spec.name.ends_with(end)) {
      modules.push_back(spec.name.substr(0, spec.name.size() - end.size()));
    }
  }
  return modules;
}

std::vector<std::string> target_names(const ModelConfig& model) {
  std::vector<std::string> modules = adapted_modules(model);
  AdapterSpec by_words = *model.adapters;
  by_words.targets = words_of(modules);
  if (adapted_modules(with_adapters(model, by_words)) == modules) return by_words.targets;
  return modules;
}

// What a section says itself has been refused where it was read.
void require_droppable(const ModelConfig& model, int64_t tensor_ranks) {
  if (!model.adapters || model.adapters->dropout == 0) return;
  const std::string_view obstacle = model.adapters->has_magnitudes ? "use_dora"
                                    : tensor_ranks > 1             ? "tensor parallelism"
                                                                   : "";
  if (obstacle.empty()) return;
  throw ConfigError(fmt::format(
      "lora.adapter: its adapter_config.json says lora_dropout {}, which this build does not train "
      "beside {}; write 0 there",
      model.adapters->dropout, obstacle));
}

std::vector<std::string> require_adapters(const ModelConfig& model) {
  if (!model.adapters) return {};
  const AdapterSpec& spec = *model.adapters;
  require_layers(model);
  require_untied(model);
  require_frozen_experts(model);
  std::vector<std::string> notes;
  if (transformer_spec(model).experts) {
    notes.emplace_back(
        "lora: experts have no adapters, nor has one that all tokens go through; the linear layers "
        "beside them have");
  }
  if (const std::vector<std::string> saved = idle_saved_modules(model); !saved.empty()) {
    notes.push_back(
        fmt::format("lora.modules_to_save: {} fit no module of the model", fmt::join(saved, ", ")));
  }
  const std::vector<std::string> linear = linear_modules(model);
  std::vector<std::string> idle;
  for (const std::string& target : spec.targets) {
    if (fits_one(target, linear)) continue;
    if (fits_one(target, all_modules(with_adapters(model, {.targets = {}})))) {
      throw Unsupported(
          fmt::format("lora.target_modules: \"{}\": adapters of tables, norms and heads are not "
                      "built; those of "
                      "{} are, and lora.modules_to_save trains any module as a whole",
                      target, join_some(words_of(linear), kNamedAtMost)));
    }
    idle.push_back(target);
  }
  if (adapted_modules(model).empty()) {
    throw ConfigError(fmt::format(
        "lora.target_modules: {} fit no linear layer{}, and nothing would have an adapter; the "
        "model has {}",
        fmt::join(spec.targets, ", "),
        spec.layers.empty() && spec.excluded.empty() ? "" : " that is left",
        join_some(words_of(linear), kNamedAtMost)));
  }
  if (!idle.empty()) {
    notes.push_back(fmt::format("lora.target_modules: {} fit no layer of the model, which has {}",
                                fmt::join(idle, ", "), join_some(words_of(linear), kNamedAtMost)));
  }
  return notes;
}

}  // namespace ds
