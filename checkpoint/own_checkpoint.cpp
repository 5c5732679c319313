#include "checkpoint/own_checkpoint.h"

#include <filesystem>

#include "checkpoint/format.h"

namespace ds {
namespace {

constexpr const char* kEpoch = "epoch";  // which every folder of tags has
constexpr const char* kTagsOfRun = "checkpoints";

// The path without "." and slashes at its end, so that it says what it lies in.
std::string with_parent(const std::string& given) {
  const auto bare = [](const std::filesystem::path& path) {
    const std::filesystem::path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  };
  const std::filesystem::path path = bare(given);
  const bool says_it = path.has_parent_path() && path.filename() != "..";
  return (says_it ? path : bare(std::filesystem::absolute(path))).string();
}

}  // namespace

OwnCheckpoint own_checkpoint(const FileSystem& files, const std::string& given) {
  const std::string path = with_parent(given);
  using Kind = OwnCheckpoint::Kind;
  const auto has = [&](const std::string& folder, std::string_view name) {
    return files.exists(join_path(folder, name));
  };
  if (has(path, kManifestName)) return {Kind::kTag, parent_directory(path), path};
  if (has(path, kEpoch)) return {Kind::kRoot, path, path};
  const std::string tags = join_path(path, kTagsOfRun);
  return has(tags, kEpoch) ? OwnCheckpoint{Kind::kRun, tags, path} : OwnCheckpoint{};
}

}  // namespace ds
