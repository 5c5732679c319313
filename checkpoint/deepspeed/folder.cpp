#include "checkpoint/deepspeed/folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/deepspeed/folder_files.h"
#include "checkpoint/deepspeed/pipeline_table.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

std::vector<std::string> names_in(const FileSystem& files, const std::string& folder) {
  if (!files.exists(folder)) {
    throw InputMissing(fmt::format("{}: there is no such folder", folder));
  }
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : files.list(folder)) names.push_back(entry.name);
  return names;
}

constexpr int64_t kLongestTag = 4096;

// What `latest` names, or for universal folders `latest_universal`.
std::string latest_in(FileSystem& files, const std::string& folder) {
  for (const char* name : {"latest", "latest_universal"}) {
    const std::string path = join_path(folder, name);
    if (!files.exists(path)) continue;
    return tag_of(path, files.read_text(path, kLongestTag));
  }
  throw InputMissing(
      fmt::format("{}: has neither a checkpoint of DeepSpeed nor the file latest, "
                  "which names one; give the folder of the checkpoint",
                  folder));
}

std::string directory_of(FileSystem& files, const std::string& path,
                         const std::optional<std::string>& tag) {
  if (tag) return join_path(path, tag_of(path, *tag));
  if (is_checkpoint(names_in(files, path))) return path;
  return join_path(path, latest_in(files, path));
}

constexpr const char* kWholeOptimizer = "optimizer_state.pt";

// zero/NAME/STATE.pt; files of the folder zero itself are of the whole optimizer.
std::vector<UniversalParameter> open_universal(const FileSystem& files,
                                               const std::string& directory, OpenFiles& opened) {
  const std::string folder = join_path(directory, "zero");
  std::vector<UniversalParameter> parameters;
  for (const DirectoryEntry& entry : files.list(folder)) {
    if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
    UniversalParameter& parameter = parameters.emplace_back(UniversalParameter{entry.name, {}});
    const std::string of_parameter = join_path(folder, entry.name);
    for (const std::string& name : names_in(files, of_parameter)) {
      if (!name.ends_with(".pt")) continue;
      opened.push_back(
          std::make_unique<const TorchFile>(TorchFile::open(join_path(of_parameter, name))));
      parameter.states.emplace(name.substr(0, name.size() - 3), opened.back().get());
    }
  }
  return parameters;
}

}  // namespace

SavedTable DeepSpeedFolder::universal(const FileSystem& files, const FolderFiles& names) {
  const OpenFiles& model = open(names.stages.front().model);
  const std::vector<UniversalParameter> parameters =
      open_universal(files, directory_, opened_.emplace_back());
  SavedTable table = universal_table(*model.front(), parameters);
  const std::string whole = join_path(join_path(directory_, "zero"), kWholeOptimizer);
  if (files.exists(whole)) {
    const TorchFile file = TorchFile::open(whole);
    table.progress.rate = rate_of(SavedFields(file));
  }
  return table;
}

SavedTable DeepSpeedFolder::stage(const RankFiles& names) {
  const OpenFiles& optimizer = open(names.optimizer);
  if (!optimizer.empty()) {
    require_ranks(directory_, names, optimizer_states_of(*optimizer.front()).partitions);
  }
  const OpenFiles& model = open(names.model);
  return optimizer.empty() ? plain_table(*model.front()) : zero_table(model, optimizer);
}

SavedTable DeepSpeedFolder::pipeline(const FolderFiles& names) {
  std::vector<StageTable> stages;
  for (const RankFiles& own : names.stages) {
    SavedTable table = stage(own);
    stages.push_back({std::move(table), opened_.back().front().get()});
  }
  std::vector<const TorchFile*> layers;
  for (const auto& file : open(names.layers)) layers.push_back(file.get());
  return pipeline_table(std::move(stages), layers);
}

const OpenFiles& DeepSpeedFolder::open(const std::vector<std::string>& names) {
  OpenFiles& files = opened_.emplace_back();
  for (const std::string& name : names) {
    files.push_back(
        std::make_unique<const TorchFile>(TorchFile::open(join_path(directory_, name))));
  }
  return files;
}

DeepSpeedFolder DeepSpeedFolder::open(FileSystem& files, const std::string& path,
                                      const std::optional<std::string>& tag) {
  DeepSpeedFolder folder;
  folder.directory_ = directory_of(files, path, tag);
  const FolderFiles names = files_of(folder.directory_, names_in(files, folder.directory_));
  if (names.is_universal) {
    folder.table_ = folder.universal(files, names);
  } else if (names.layers.empty()) {
    folder.table_ = folder.stage(names.stages.front());
  } else {
    folder.table_ = folder.pipeline(names);
  }
  return folder;
}

std::vector<std::string> DeepSpeedFolder::slots() const {
  if (!table_.why_no_slots.empty()) throw Unsupported(table_.why_no_slots);
  std::vector<std::string> slots;
  for (const auto& [slot, tensors] : table_.slots) slots.push_back(slot);
  return slots;
}

const TensorsByName& DeepSpeedFolder::tensors(const std::string& slot) const {
  if (slot == kWeightSlot) return table_.weights;
  if (!table_.why_no_slots.empty()) throw Unsupported(table_.why_no_slots);
  const auto found = table_.slots.find(slot);
  if (found == table_.slots.end()) {
    throw DataError(fmt::format("{}: its optimizer keeps no {}", directory_, slot));
  }
  return found->second;
}

const SavedTensor& DeepSpeedFolder::tensor(const std::string& name, const std::string& slot) const {
  const TensorsByName& all = tensors(slot);
  const auto found = all.find(name);
  if (found == all.end()) {
    throw DataError(fmt::format("{}: has no {} of {}", directory_, slot, name));
  }
  return found->second;
}

void read(const SavedTensor& tensor, int64_t begin, std::span<std::byte> into) {
  const int64_t item = tensor.dtype.size;
  DS_CHECK(item > 0 && std::ssize(into) % item == 0 && begin >= 0 &&
               begin + std::ssize(into) / item <= tensor.numel(),
           "read: {} bytes from element {} of {}", into.size(), begin, tensor.numel());
  for (const SavedRun& run : tensor.runs) {
    if (begin >= run.numel) {
      begin -= run.numel;
      continue;
    }
    const int64_t count = std::min(run.numel - begin, std::ssize(into) / item);
    if (count == 0) return;
    run.file->copy(*run.tensor, run.first + begin, into.first(to_size(count * item)));
    into = into.subspan(to_size(count * item));
    begin = 0;
  }
}

}  // namespace ds::deepspeed
