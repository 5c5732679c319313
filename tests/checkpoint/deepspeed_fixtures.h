// Checkpoints of DeepSpeed among the fixtures (tests/golden/deepspeed), and what is read of them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/folder.h"
#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/files/crc32.h"
#include "core/files/file.h"
#include "core/values/index.h"
#include "tests/support/golden.h"

namespace ds::deepspeed {

inline std::string fixture(const std::string& name) {
  return testing::source_directory() + "/tests/golden/deepspeed/" + name;
}

inline DeepSpeedFolder open(const std::string& path) {
  RealFileSystem files;
  return DeepSpeedFolder::open(files, path);
}

inline std::vector<std::byte> all_of(const SavedTensor& tensor) {
  std::vector<std::byte> bytes(to_size(tensor.numel() * tensor.dtype.size));
  read(tensor, 0, bytes);
  return bytes;
}

inline int64_t checksum(const std::vector<std::byte>& bytes) {
  return crc32({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

inline Value sums_in(const std::filesystem::path& folder, const std::string& name = "sums.json") {
  RealFileSystem files;
  return read_config_document(files.read_text((folder / name).string(), 1 << 20), name);
}

}  // namespace ds::deepspeed
