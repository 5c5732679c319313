// Archives among the fixtures: checkpoints that have a file for each state of each parameter.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "core/files/mapped_file.h"
#include "core/files/zip_reader.h"

namespace ds::testing {

// Every entry of an archive as a file below a folder.
inline void unpack(const std::string& archive, const std::filesystem::path& folder) {
  constexpr int64_t kLargest = 1 << 20;
  const MappedFile bytes(archive);
  const ZipReader zip(archive, bytes.bytes());
  for (const ZipEntry& entry : zip.entries()) {
    const std::filesystem::path path = folder / entry.name;
    std::filesystem::create_directories(path.parent_path());
    const std::vector<std::byte> content = zip.read(entry, kLargest);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), std::ssize(content));
  }
}

}  // namespace ds::testing
