#include "train/convert/convert.h"

#include <memory>

#include "checkpoint/deepspeed/stored_slot.h"
#include "config/families/hf_config.h"
#include "core/files/deepspeed_folder.h"
#include "core/files/input_files.h"
#include "model/families/zoo.h"
#include "model/hf/renamed_tensors.h"
#include "model/hf/weights.h"
#include "train/convert/name_rules.h"
#include "train/model_folder.h"

namespace ds {
namespace {

using deepspeed::DeepSpeedFolder;

constexpr const char* kModelConfig = "config.json";
constexpr int64_t kLargestMap = int64_t{1} << 20;

struct Opened {
  WeightFolder weights;
  Converted about;
};

Opened open_source(FileSystem& files, const Conversion& what) {
  if (what.tag || is_deepspeed_folder(files, what.source)) {
    const auto folder = std::make_shared<const DeepSpeedFolder>(
        DeepSpeedFolder::open(files, what.source, what.tag));
    Converted about{.from = folder->directory(),
                    .step = folder->progress().steps,
                    .by = "DeepSpeed " + folder->progress().version};
    return {
        WeightFolder(std::make_shared<const deepspeed::StoredSlot>(folder, deepspeed::kWeightSlot)),
        about};
  }
  return {WeightFolder::open(files, what.source), {.from = what.source, .by = "its writer"}};
}

// The folder whose config.json says what the weights are of.
std::string config_folder(FileSystem& files, const Conversion& what, const std::string& from) {
  if (what.config) {
    return what.config->ends_with("/config.json") ? parent_directory(*what.config) : *what.config;
  }
  for (const std::string& folder :
       {from, parent_directory(from), parent_directory(parent_directory(from))}) {
    if (files.exists(join_path(folder, kModelConfig))) return folder;
  }
  throw InputMissing(
      fmt::format("{}: there is no config.json in it or beside it, which says what "
                  "model the weights are of; give --config FOLDER",
                  from));
}

NameRules rules_of(FileSystem& files, const Conversion& what) {
  if (!what.name_map) return {};
  return {*what.name_map, files.read_text(*what.name_map, kLargestMap)};
}

// Takes away what a conversion leaves behind that fails.
class Unfinished {
 public:
  Unfinished(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {
    if (!files_.exists(folder_)) return;
    throw UsageError(fmt::format(
        "{}: is there already, perhaps of a conversion that was broken off; remove it", folder_));
  }
  Unfinished(const Unfinished&) = delete;  // owns the folder
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished() {
    try {
      if (files_.exists(folder_)) files_.remove_tree(folder_);
    } catch (const Error&) {  // the error that led here is the one to tell
    }
  }
  const std::string& folder() const { return folder_; }
  void finish_as(const std::string& name) {
    files_.sync_directory(folder_);
    files_.rename(folder_, name);
    files_.sync_directory(parent_directory(name));
  }

 private:
  FileSystem& files_;
  std::string folder_;
};

std::string without_end(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

Converted convert_to_hf(FileSystem& files, const Conversion& what) {
  const std::string destination = without_end(what.destination);
  if (files.exists(destination)) {
    throw UsageError(fmt::format("{}: is there already; name a folder that is not", destination));
  }
  InputFiles inputs(files);
  Opened source = open_source(inputs, what);
  const std::string config = config_folder(inputs, what, source.about.from);
  const ModelConfig model = read_hf_config(inputs, config);
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  std::map<std::string, std::string> names =
      renamed(source.weights.names(), rules_of(inputs, what));
  const HfWeights weights(
      WeightFolder(std::make_shared<const RenamedTensors>(std::move(source.weights), names)),
      source.about.from, specs);

  FolderFrame frame = folder_frame(files, model, config, config, what.dtype);
  frame.stored_names.clear();  // transformers' names, whatever the source has
  files.make_directories(parent_directory(destination));
  Unfinished made(files, destination + ".partial");
  write_model_folder(files, {.folder = made.folder(), .frame = frame, .specs = specs},
                     [&](size_t index, Tensor& into) { weights.read(index, 0, into); });
  made.finish_as(destination);
  Converted done = source.about;
  for (const ExportTensor& entry : export_list(specs, what.dtype)) {
    ++done.tensors;
    done.numel += entry.tensor.shape.numel();
  }
  done.bytes = done.numel * static_cast<int64_t>(size_of(what.dtype));
  return done;
}

}  // namespace ds
