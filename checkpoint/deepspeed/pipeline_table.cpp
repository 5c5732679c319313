#include "checkpoint/deepspeed/pipeline_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/deepspeed/saved_fields.h"
#include "core/status/error.h"
#include "core/text/number_in.h"

namespace ds::deepspeed {

namespace {

using Kind = SavedParameter::Kind;

void require_like(const ModelPart& own, const ModelPart& first) {
  const Progress &mine = own.table.progress, &theirs = first.table.progress;
  const auto differs = [&](std::string_view what, const auto& one, const auto& other) {
    if (one == other) return;
    throw DataError(fmt::format("{}: {} is {}, but {} in {}; the files are of several checkpoints",
                                own.model->path(), what, one, other, first.model->path()));
  };
  differs("global_steps", mine.steps, theirs.steps);
  differs("ds_version", mine.version, theirs.version);
  differs("zero_stage", mine.stage, theirs.stage);
  differs("number of updates", mine.updates.value_or(0), theirs.updates.value_or(0));
}

void add_stage(SavedTable& whole, SavedTable&& stage) {
  for (SavedParameter& parameter : stage.parameters) {
    const auto weights = stage.weights.find(parameter.name);
    if (weights == stage.weights.end()) continue;
    if (!whole.weights.emplace(parameter.name, std::move(weights->second)).second) continue;
    for (auto& [slot, tensors] : stage.slots) {
      const auto state = tensors.find(parameter.name);
      if (state != tensors.end()) whole.slots[slot].insert(std::move(*state));
    }
    whole.parameters.push_back(std::move(parameter));
  }
  if (whole.progress.rate != stage.progress.rate) whole.progress.rate.reset();
}

// "7" of "DIR/layer_07-model_states.pt".
std::string layer_of(const TorchFile& file) {
  constexpr std::string_view kFront = "layer_";
  std::string_view name = std::string_view(file.path()).substr(file.path().rfind('/') + 1);
  name.remove_prefix(std::min(name.size(), kFront.size()));
  const auto number = number_in<int64_t>(name.substr(0, name.find('-')));
  if (!number) throw DataError(fmt::format("{}: its name says no layer", file.path()));
  return std::to_string(*number);
}

using LayerTensors = std::map<std::string, const TorchTensor*>;

LayerTensors tensors_of(const TorchFile& file) {
  LayerTensors tensors;
  const SavedFields fields(file);
  for (const auto& [key, value] : fields.dict().items) {
    const std::optional<std::string_view> name = key.as_text();
    const TorchTensor* tensor = value.as_tensor();
    if (!name || tensor == nullptr) {
      throw DataError(fmt::format("{}: expected tensors by their names", file.path()));
    }
    tensors.emplace(*name, tensor);
  }
  return tensors;
}

// The names and shapes of modules that several layers share, each without "tied_modules.KEY.".
using TiedModules = std::map<std::string, std::map<std::string, std::vector<int64_t>>>;

TiedModules tied_in(const SavedTable& table) {
  constexpr std::string_view kTied = "tied_modules.";
  TiedModules tied;
  for (const auto& [name, tensor] : table.weights) {
    if (!name.starts_with(kTied)) continue;
    const size_t dot = name.find('.', kTied.size());
    if (dot == std::string::npos) continue;
    tied[name.substr(0, dot)].emplace(name.substr(dot + 1), tensor.shape);
  }
  return tied;
}

// The file of a layer that others share does not say so: it has just what the module has.
bool is_tied(const LayerTensors& layer, const TiedModules& tied) {
  return std::ranges::any_of(tied, [&](const auto& module) {
    return std::ranges::equal(layer, module.second, [](const auto& own, const auto& other) {
      return own.first == other.first && own.second->shape == other.second;
    });
  });
}

void add_layer(SavedTable& table, const TorchFile& file, const TiedModules& tied, Kind kind) {
  const std::string layer = layer_of(file);
  const LayerTensors tensors = tensors_of(file);
  if (is_tied(tensors, tied)) return;
  for (const auto& [name, tensor] : tensors) {
    const std::string full = fmt::format("{}.{}", layer, name);
    if (!table.weights.emplace(full, whole_tensor(file, *tensor)).second) continue;
    table.parameters.push_back({full, kind});
  }
}

}  // namespace

void require_one_run(std::span<const ModelPart> parts) {
  for (const ModelPart& part : parts) require_like(part, parts.front());
}

SavedTable pipeline_table(std::vector<ModelPart> stages, std::span<const TorchFile* const> layers) {
  require_one_run(stages);
  SavedTable whole;
  whole.progress = stages.front().table.progress;
  whole.why_no_slots = stages.front().table.why_no_slots;
  const bool is_trained_by_zero = !stages.front().table.weights.empty();
  for (ModelPart& stage : stages) add_stage(whole, std::move(stage.table));
  const TiedModules tied = tied_in(whole);
  for (const TorchFile* file : layers) {
    add_layer(whole, *file, tied, is_trained_by_zero ? Kind::kFrozen : Kind::kTrained);
  }
  return whole;
}

}  // namespace ds::deepspeed
