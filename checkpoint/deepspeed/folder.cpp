#include "checkpoint/deepspeed/folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/deepspeed/folder_files.h"
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

OpenFiles open_all(const std::string& directory, const std::vector<std::string>& names) {
  OpenFiles opened;
  for (const std::string& name : names) {
    opened.push_back(
        std::make_unique<const TorchFile>(TorchFile::open(join_path(directory, name))));
  }
  return opened;
}

// zero/NAME/STATE.pt; files of the folder zero itself are of the whole optimizer.
constexpr const char* kWholeOptimizer = "optimizer_state.pt";

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

DeepSpeedFolder DeepSpeedFolder::open(FileSystem& files, const std::string& path,
                                      const std::optional<std::string>& tag) {
  DeepSpeedFolder folder;
  folder.directory_ = directory_of(files, path, tag);
  const FolderFiles names = files_of(folder.directory_, names_in(files, folder.directory_));
  folder.optimizer_files_ = open_all(folder.directory_, names.optimizer);
  if (!folder.optimizer_files_.empty()) {
    const OptimizerStates any = optimizer_states_of(*folder.optimizer_files_.front());
    require_ranks(folder.directory_, names, any.partitions);
  }
  folder.files_ = open_all(folder.directory_, names.model);
  if (names.is_universal) {
    const std::vector<UniversalParameter> parameters =
        open_universal(files, folder.directory_, folder.optimizer_files_);
    folder.table_ = universal_table(*folder.files_.front(), parameters);
    const std::string whole = join_path(join_path(folder.directory_, "zero"), kWholeOptimizer);
    if (files.exists(whole)) {
      const TorchFile file = TorchFile::open(whole);
      folder.table_.progress.rate = rate_of(SavedFields(file));
    }
  } else if (names.optimizer.empty()) {
    folder.table_ = plain_table(*folder.files_.front());
  } else {
    folder.table_ = zero_table(folder.files_, folder.optimizer_files_);
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
