#include "model/hf/weights_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/files/digest.h"
#include "core/text/hex.h"
#include "core/values/index.h"

namespace ds {

std::string fingerprint_of_weights(FileSystem& files, const std::string& folder) {
  constexpr int64_t kBlock = 4096, kBlocks = 256;  // of each file, spread over it
  std::string seen;
  for (const DirectoryEntry& entry : files.list(folder)) {
    const std::string& name = entry.name;
    if (entry.kind != DirectoryEntry::Kind::kFile) continue;
    if (!name.ends_with(".safetensors") && !name.ends_with(".bin")) continue;
    const std::unique_ptr<File> file = files.open(join_path(folder, name));
    seen += fmt::format("{} {}\n", name, file->size());
    const int64_t step = std::max(kBlock, file->size() / kBlocks);
    std::vector<std::byte> bytes(to_size(kBlock));
    for (int64_t at = 0; at < file->size(); at += step) {
      const auto block = std::span(bytes).first(to_size(std::min(kBlock, file->size() - at)));
      file->read(at, block);
      seen.append(reinterpret_cast<const char*>(block.data()), block.size());
    }
  }
  return hex(xxh3_128(std::as_bytes(std::span(seen))));
}

}  // namespace ds
