#include "core/files/deepspeed_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/status/error.h"

namespace ds {
namespace {

bool is_state_file(std::string_view name) {
  return name.ends_with("_model_states.pt") || name.ends_with("_optim_states.pt");
}

std::vector<DirectoryEntry> entries_of(const FileSystem& files, const std::string& folder) {
  try {
    return files.exists(folder) ? files.list(folder) : std::vector<DirectoryEntry>{};
  } catch (const Error&) {
    return {};  // a file, or a folder that may not be listed, which shows nothing
  }
}

// The first name of a state in the folder itself.
std::string state_file_in(const FileSystem& files, const std::string& folder) {
  const std::vector<DirectoryEntry> entries = entries_of(files, folder);
  const auto found = std::ranges::find_if(
      entries, [](const DirectoryEntry& entry) { return is_state_file(entry.name); });
  return found == entries.end() ? std::string() : found->name;
}

// The same in it or in one of the checkpoints that it holds, relative to it.
std::string state_file_below(const FileSystem& files, const std::string& folder) {
  if (std::string name = state_file_in(files, folder); !name.empty()) return name;
  for (const DirectoryEntry& entry : entries_of(files, folder)) {
    if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
    const std::string name = state_file_in(files, join_path(folder, entry.name));
    if (!name.empty()) return join_path(entry.name, name);
  }
  return {};
}

}  // namespace

bool is_deepspeed_folder(const FileSystem& files, const std::string& path) {
  return !state_file_below(files, path).empty();
}

std::string deepspeed_advice(const FileSystem& files, const std::string& path) {
  const bool is_file = is_state_file(path);
  const std::string file = is_file ? path : state_file_below(files, path);
  if (file.empty()) return {};
  return fmt::format(
      "{}: is {} of DeepSpeed's checkpoints{}; expected a run directory or a checkpoint of "
      "dslaunch, "
      "or a Hugging Face folder; `dslaunch convert {} OUT --config MODEL`, with a folder MODEL "
      "that "
      "has the model's config.json, makes OUT of its weights, a folder to begin from, and "
      "train.resume_from names a folder whose training goes on",
      path, is_file ? "a file" : "a folder", is_file ? "" : fmt::format(" ({})", file),
      is_file ? parent_directory(path) : path);
}

}  // namespace ds
