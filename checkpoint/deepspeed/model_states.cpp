#include "checkpoint/deepspeed/model_states.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>

#include "core/status/error.h"

namespace ds::deepspeed {

namespace {

std::string text_of(const TorchValue& value, const std::string& name) {
  const std::optional<std::string_view> text = value.as_text();
  if (!text) {
    throw DataError(fmt::format("{} is {}, expected a name", name, kind_text(value.kind())));
  }
  return std::string(*text);
}

std::vector<NamedShape> shapes_of(const TorchDict& dict, const std::string& name) {
  std::vector<NamedShape> shapes;
  for (const auto& [key, value] : dict.items) {
    const std::string parameter = text_of(key, name);
    shapes.push_back({parameter, extents_of(value, fmt::format("{}[{}]", name, parameter))});
  }
  return shapes;
}

ParamGroups groups_of(const SavedFields& root) {
  ParamGroups groups;
  if (root.find("param_shapes") == nullptr) return groups;
  for (const TorchValue& group : root.list("param_shapes").items) {
    const TorchDict* dict = group.as_dict();
    if (dict == nullptr) root.refuse("param_shapes", "a list of dicts");
    groups.push_back(shapes_of(*dict, root.name_of("param_shapes")));
  }
  return groups;
}

void add_tensors(const TorchDict& dict, const std::string& front, const std::string& path,
                 NamedSaved& tensors) {
  for (const auto& [key, value] : dict.items) {
    const TorchTensor* tensor = value.as_tensor();
    const TorchDict* inner = value.as_dict();
    if (!front.empty() && !key.as_text()) continue;
    const std::string name = front + text_of(key, path);
    if (tensor != nullptr) tensors.emplace_back(name, tensor);
    if (inner != nullptr) add_tensors(*inner, name + ".", path, tensors);
  }
}

// Megatron-DeepSpeed saves a dict of each module in that of the one around it.
NamedSaved tensors_of(const SavedFields& fields) {
  NamedSaved tensors;
  add_tensors(fields.dict(), "", fields.name_of(), tensors);
  return tensors;
}

// Stage 0 does not list names that share their memory.
std::vector<std::pair<std::string, std::string>> sharing_in(const NamedSaved& module) {
  std::map<std::tuple<std::string_view, int64_t, std::vector<int64_t>>, std::string> first;
  std::vector<std::pair<std::string, std::string>> shared;
  for (const auto& [name, tensor] : module) {
    if (tensor->numel() == 0) continue;
    const auto [place, is_new] =
        first.try_emplace({tensor->storage->id, tensor->offset, tensor->shape}, name);
    if (!is_new) shared.emplace_back(name, place->second);
  }
  return shared;
}

std::vector<std::pair<std::string, std::string>> shared_of(const SavedFields& root,
                                                           const ModelStates& states) {
  const std::optional<SavedFields> listed = root.optional_fields("shared_params");
  if (!listed) return sharing_in(states.module);
  std::vector<std::pair<std::string, std::string>> shared;
  for (const auto& [key, value] : listed->dict().items) {
    shared.emplace_back(text_of(key, listed->name_of()), text_of(value, listed->name_of()));
  }
  return shared;
}

// A scalar in words; nothing for other values.
std::optional<std::string> scalar_words(const TorchValue& value) {
  if (const auto is = value.as_bool()) return *is ? "true" : "false";
  if (const auto number = value.as_number()) return fmt::format("{}", *number);
  if (const auto text = value.as_text()) return std::string(*text);
  return std::nullopt;
}

std::optional<std::string> words_of(const TorchValue& value) {
  const TorchList* list = value.as_sequence();
  if (list == nullptr) return scalar_words(value);
  std::vector<std::string> items;
  for (const TorchValue& item : list->items) {
    const std::optional<std::string> words = scalar_words(item);
    if (!words) return std::nullopt;
    items.push_back(*words);
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

void add_settings(const TorchDict& dict, const std::string& path,
                  std::map<std::string, std::string>& settings) {
  for (const auto& [key, value] : dict.items) {
    const std::optional<std::string_view> name = key.as_text();
    const std::optional<std::string> words = words_of(value);
    if (name && words) settings.emplace(fmt::format("{}.{}", path, *name), *words);
  }
}

// A script may have given DeepSpeed the name of a file, or nothing, in place of the dict.
std::map<std::string, std::string> settings_of(const SavedFields& root) {
  std::map<std::string, std::string> settings;
  const TorchValue* config = root.find("ds_config");
  const TorchDict* keys = config == nullptr ? nullptr : config->as_dict();
  if (keys == nullptr) return settings;
  for (const std::string section : {"optimizer", "scheduler"}) {
    const TorchValue* found = keys->find(section);
    const TorchDict* dict = found == nullptr ? nullptr : found->as_dict();
    if (dict == nullptr) continue;
    add_settings(*dict, section, settings);
    const TorchValue* params = dict->find("params");
    if (params == nullptr || params->as_dict() == nullptr) continue;
    add_settings(*params->as_dict(), section + ".params", settings);
  }
  return settings;
}

Progress progress_of(const SavedFields& root) {
  Progress progress;
  progress.steps = root.integer("global_steps");
  progress.skipped = root.optional_integer("skipped_steps").value_or(0);
  progress.samples = root.optional_integer("global_samples").value_or(0);
  progress.version = root.optional_text("ds_version");
  progress.data_ranks = root.optional_integer("dp_world_size").value_or(1);
  if (const std::optional<SavedFields> scheduler = root.optional_fields("lr_scheduler")) {
    if (const auto last = scheduler->optional_integer("last_batch_iteration")) {
      progress.scheduler_steps = *last + 1;
    }
  }
  progress.settings = settings_of(root);
  if (progress.steps < 0 || progress.skipped < 0 || progress.skipped > progress.steps) {
    throw DataError(fmt::format("{}: {} steps of which {} were skipped", root.name_of(),
                                progress.steps, progress.skipped));
  }
  return progress;
}

}  // namespace

ModelStates model_states_of(const TorchFile& file) {
  const SavedFields root(file);
  ModelStates states;
  states.progress = progress_of(root);
  states.groups = groups_of(root);
  if (const auto module = root.optional_fields("module")) states.module = tensors_of(*module);
  if (root.find("buffer_names") != nullptr) {
    for (const TorchValue& name : root.list("buffer_names").items) {
      states.buffers.insert(text_of(name, root.name_of("buffer_names")));
    }
  }
  if (const auto frozen = root.optional_fields("frozen_param_shapes")) {
    states.frozen = shapes_of(frozen->dict(), frozen->name_of());
    states.fragments = tensors_of(root.fields("frozen_param_fragments"));
  }
  states.shared = shared_of(root, states);
  return states;
}

}  // namespace ds::deepspeed
