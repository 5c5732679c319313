#include "train/step/swap.h"

#include "core/files/file.h"
#include "offload/swap_directory.h"

namespace ds {

namespace {

std::unique_ptr<Swapper> open_in(const std::string& folder, const SwapFolder& place, int number,
                                 int64_t bytes) {
  IoOptions io = place.io;
  io.folder = folder;
  SwapOwner owner = place.owner;
  if (number > 0) owner.job += fmt::format(".{}", number);
  return std::make_unique<Swapper>(
      SwapperOptions{.directory = folder, .owner = owner, .bytes = bytes},
      std::make_unique<AsyncIo>(io));
}

}  // namespace

SwapOpener swap_opener(const SwapFolder& place) {
  return [place, files = std::make_shared<int>(0)](int64_t bytes) {
    RealFileSystem disk;
    if (!disk.exists(place.nvme_path)) {
      throw ConfigError(
          fmt::format("nvme_path: {} for {} is not there", place.nvme_path, place.of));
    }
    const std::string folder = join_path(place.nvme_path, "dslaunch-" + place.of);
    disk.make_directories(folder);
    return open_in(folder, place, (*files)++, bytes);
  };
}

SwapOpener job_swap_opener(const SwapFolder& place) {
  return [place, files = std::make_shared<int>(0),
          folder = std::make_shared<const SwapDirectory>(place.nvme_path, place.owner)](
             int64_t bytes) { return open_in(folder->path(), place, (*files)++, bytes); };
}

}  // namespace ds
