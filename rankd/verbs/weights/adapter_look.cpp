#include "rankd/verbs/weights/adapter_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "config/sections/adapters/adapter_file.h"
#include "core/status/error.h"
#include "core/text/join_some.h"
#include "core/values/count_text.h"
#include "model/families/zoo.h"
#include "model/hf/adapter_weights.h"
#include "model/hf/weight_folder.h"
#include "train/adapter_folder.h"
#include "train/settings/adapter_fit.h"

namespace ds {
namespace {

constexpr size_t kMostWords = 8;

void add_once(std::vector<std::string>& list, std::string_view text) {
  if (std::ranges::find(list, text) == list.end()) list.emplace_back(text);
}

// What the file of weights has, by its headers.
struct StoredAdapters {
  int64_t adapters = 0, parameters = 0;
  std::vector<std::string> layers, whole;  // last words of the paths of modules
};

// peft puts the layer that has an adapter below a module of its own.
std::string_view last_module(std::string_view path) {
  constexpr std::string_view kWrapped = ".base_layer";
  if (path.ends_with(kWrapped)) path.remove_suffix(kWrapped.size());
  return path.substr(path.rfind('.') + 1);
}

StoredAdapters stored_adapters(const WeightFolder& weights) {
  StoredAdapters stored;
  for (const std::string& name : weights.names()) {
    stored.parameters += weights.info(name).shape.numel();
    const std::string_view word = last_module(module_of_parameter(name));
    const bool is_adapter = is_adapter_parameter(name) || name.ends_with(adapter_names::kMagnitude);
    if (!is_adapter) add_once(stored.whole, word);
    if (!name.ends_with(fmt::format(".{}.weight", adapter_names::kA))) continue;
    ++stored.adapters;
    add_once(stored.layers, word);
  }
  return stored;
}

std::string method_of(const AdapterSpec& spec) {
  if (!spec.has_magnitudes) return spec.scales_by_root ? "rsLoRA" : "LoRA";
  return spec.scales_by_root ? "DoRA with the scale of rsLoRA" : "DoRA";
}

std::string adapters_text(const AdapterSpec& spec, const std::optional<StoredAdapters>& stored) {
  std::string text = fmt::format("{}, r = {}, alpha = {}", method_of(spec), spec.rank, spec.alpha);
  if (const size_t own = spec.ranks.size() + spec.alphas.size(); own > 0) {
    text += fmt::format(" ({} patterns have their own)", own);
  }
  if (!stored) return fmt::format("{}, beside {}", text, join_some(spec.targets, kMostWords));
  text += fmt::format(": {} adapters beside {}", stored->adapters,
                      join_some(stored->layers, kMostWords));
  if (!stored->whole.empty()) {
    text += fmt::format("; weights of {} themselves", join_some(stored->whole, kMostWords));
  }
  return text + fmt::format("; {} parameters", count_text(stored->parameters));
}

class AdapterLooker {
 public:
  AdapterLooker(FileSystem& files, ModelFolderLook& found) : files_(files), found_(found) {}

  std::optional<ModelConfig> look() {
    found_.attempt("adapters", [&] { file_ = read_adapter_file(files_, found_.folder); });
    const bool is_whole = found_.attempt("weights", [&] { look_at_stored(); });
    if (!file_) return std::nullopt;
    found_.add_fact("adapters", adapters_text(file_->spec, stored_));
    const std::optional<std::string> base = base_folder(files_, *file_);
    if (!base) {
      note_missing_base();
      return std::nullopt;
    }
    std::optional<AdapterFolder> folder;
    if (!found_.attempt("model",
                        [&] { folder = open_adapter_folder(files_, found_.folder, *base); })) {
      return std::nullopt;
    }
    ModelConfig plain = folder->model;
    plain.adapters.reset();
    found_.add_fact("model", fmt::format("{}: {}", *base, model_text(plain)));
    for (std::string& note : require_adapters(folder->model)) {
      found_.add_note("adapters", std::move(note));
    }
    if (is_whole) found_.attempt("weights", [&] { compare(*folder); });
    return folder->model;
  }

 private:
  void look_at_stored() {
    for (const char* const name : {adapter_names::kWeights, adapter_names::kTorchWeights}) {
      const std::string path = join_path(found_.folder, name);
      if (!files_.exists(path)) continue;
      const WeightFolder weights = WeightFolder::open(files_, path);
      found_.add_fact("weights", stored_text(weights));
      stored_ = stored_adapters(weights);
      return;
    }
    throw InputMissing(fmt::format("there are none: no {} or {}", adapter_names::kWeights,
                                   adapter_names::kTorchWeights));
  }

  // Names and shapes are in the headers of both files.
  void compare(const AdapterFolder& folder) {
    AdaptedWeights(files_, folder.base, specs_of_model(folder.model, DType::kF32), {},
                   found_.folder);
  }

  void note_missing_base() {
    const std::string which =
        file_->base.empty()
            ? fmt::format("{} does not say which one they belong to (base_model_name_or_path)",
                          adapter_names::kConfig)
            : fmt::format("{}, which they belong to, is no folder of a model here", file_->base);
    found_.add_note("model", which +
                                 ", and their weights are compared with none; generate, eval, "
                                 "merge and convert take its folder as --base, and a "
                                 "train.json as model.folder beside lora.adapter");
  }

  FileSystem& files_;
  ModelFolderLook& found_;
  std::optional<AdapterFile> file_;
  std::optional<StoredAdapters> stored_;
};

}  // namespace

std::optional<ModelConfig> look_at_adapters(FileSystem& files, ModelFolderLook& found) {
  return AdapterLooker(files, found).look();
}

}  // namespace ds
