#include "checkpoint/own_checkpoint.h"

#include "checkpoint/format.h"

namespace ds {
namespace {

constexpr const char* kEpoch = "epoch";  // which every folder of tags has
constexpr const char* kTagsOfRun = "checkpoints";

}  // namespace

OwnCheckpoint own_checkpoint(const FileSystem& files, const std::string& path) {
  using Kind = OwnCheckpoint::Kind;
  const auto has = [&](const std::string& folder, std::string_view name) {
    return files.exists(join_path(folder, name));
  };
  if (has(path, kManifestName)) return {Kind::kTag, parent_directory(path)};
  if (has(path, kEpoch)) return {Kind::kRoot, path};
  const std::string tags = join_path(path, kTagsOfRun);
  return has(tags, kEpoch) ? OwnCheckpoint{Kind::kRun, tags} : OwnCheckpoint{};
}

}  // namespace ds
