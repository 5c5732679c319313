// What of ours lies at a path that a user names: a tag, the folder of a run's tags, or a run.
#pragma once

#include <cstdint>
#include <string>

#include "core/files/file.h"

namespace ds {

struct OwnCheckpoint {
  enum class Kind : uint8_t { kNone, kTag, kRoot, kRun } kind = Kind::kNone;
  std::string root{};  // the folder of tags; of a tag, the one it lies in
  std::string path{};  // as it was given, but so that its last part is a name
};
OwnCheckpoint own_checkpoint(const FileSystem& files, const std::string& given);

}  // namespace ds
