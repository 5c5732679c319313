#include "train/step/swap.h"

#include "core/files/file.h"
#include "core/index.h"

namespace ds {

std::function<std::unique_ptr<Swapper>(int64_t bytes)> swap_opener(const SwapFolder& place) {
  return [place](int64_t bytes) {
    RealFileSystem files;
    if (!files.exists(place.nvme_path)) {
      throw ConfigError(
          fmt::format("nvme_path: {} for {} is not there", place.nvme_path, place.of));
    }
    // The same for every job, so that what a dead one left there is replaced.
    const std::string folder = join_path(place.nvme_path, "dslaunch-" + place.of);
    files.make_directories(folder);
    IoOptions io = place.io;
    io.folder = folder;
    return std::make_unique<Swapper>(
        SwapperOptions{.directory = folder, .owner = place.owner, .bytes = bytes},
        std::make_unique<AsyncIo>(io));
  };
}

IoOptions io_options(const AioConfig& config) {
  return {.block_size = (config.block_size + kSwapPage - 1) / kSwapPage * kSwapPage,
          .queue_depth = narrow<int>(config.queue_depth),
          .single_submit = config.single_submit,
          .overlap_events = config.overlap_events,
          .thread_count = narrow<int>(config.thread_count),
          .use_gds = config.use_gds};
}

}  // namespace ds
