#include "train/configured_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/families/hf_config.h"
#include "config/sections/adapters/adapter_file.h"
#include "core/status/error.h"
#include "model/hf/weights.h"

namespace ds {

ModelConfig base_model(const ModelSection& model, FileSystem& files) {
  if (model.folder) {
    if (has_adapter(files, *model.folder) &&
        !files.exists(join_path(*model.folder, "config.json"))) {
      const std::string base = read_adapter_file(files, *model.folder).base;
      throw ConfigError(fmt::format(
          "model.folder: {} has adapters alone; give them as lora.adapter, and as model.folder the "
          "model that they belong to{}",
          *model.folder, base.empty() ? "" : fmt::format(" ({})", base)));
    }
    return read_hf_model(
        files, *model.folder,
        {.labels = model.labels, .task = model.task, .problem = model.problem_type});
  }
  if (!model.family) return ModelConfig{};  // the first of the list
  if (const auto described = described_model(model)) return *described;
  throw Unsupported(
      fmt::format("model.family: this build has {}", fmt::join(built_families(), ", ")));
}

void add_adapters(const LoraConfig& lora, FileSystem& files, ModelConfig& model) {
  model.adapters = adapters_of(lora, files);
  std::vector<std::string>& saved = model.adapters->saved_modules;
  for (const std::string& head : classifier_modules(model)) {
    if (std::ranges::find(saved, head) == saved.end()) saved.push_back(head);
  }
}

ModelConfig model_at(std::string_view key, const std::string& folder, FileSystem& files) {
  ModelSection there;
  there.folder = folder;
  try {
    return base_model(there, files);
  } catch (const Error& error) {
    constexpr std::string_view kKey = "model.folder: ";
    std::string_view what = error.what();
    if (what.starts_with(kKey)) what.remove_prefix(kKey.size());
    throw ConfigError(fmt::format(
        "{}: {}; expected a folder of Hugging Face with a whole model (dslaunch merge makes one of "
        "adapters, and final/ of a run is one)",
        key, what));
  }
}

ModelConfig training_model(const Config& config, FileSystem& files) {
  ModelConfig model = model_config(config, files);
  if (const std::optional<DistillationConfig>& distillation = config.train.distillation) {
    model.teacher = std::make_shared<const Teacher>(
        Teacher{.model = model_at("train.distillation.teacher", distillation->teacher, files),
                .folder = distillation->teacher});
  }
  return model;
}

ModelConfig model_config(const Config& config, FileSystem& files) {
  ModelConfig model = base_model(config.model, files);
  if (config.lora) add_adapters(*config.lora, files, model);
  return model;
}

}  // namespace ds
