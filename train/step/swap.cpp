#include "train/step/swap.h"

#include "core/files/file.h"

namespace ds {

std::function<std::unique_ptr<Swapper>(int64_t bytes)> swap_opener(const SwapFolder& place) {
  return [place](int64_t bytes) {
    RealFileSystem files;
    if (!files.exists(place.nvme_path)) {
      throw ConfigError(
          fmt::format("nvme_path: {} for {} is not there", place.nvme_path, place.of));
    }
    const std::string folder = join_path(place.nvme_path, "dslaunch-" + place.of);
    files.make_directories(folder);
    IoOptions io = place.io;
    io.folder = folder;
    return std::make_unique<Swapper>(
        SwapperOptions{.directory = folder, .owner = place.owner, .bytes = bytes},
        std::make_unique<AsyncIo>(io));
  };
}

}  // namespace ds
