#include "train/step/swap.h"

#include "offload/swap_directory.h"

namespace ds {

SwapOpener swap_opener(const SwapFolder& place) {
  return [place, files = std::make_shared<int>(0),
          folder =
              std::make_shared<const SwapDirectory>(place.nvme_path, place.owner)](int64_t bytes) {
    IoOptions io = place.io;
    io.folder = folder->path();
    SwapOwner owner = place.owner;
    owner.job += "." + place.of;
    if (const int number = (*files)++; number > 0) owner.job += fmt::format(".{}", number);
    return std::make_unique<Swapper>(
        SwapperOptions{
            .directory = folder->path(), .owner = owner, .bytes = bytes, .beside = place.beside},
        std::make_unique<AsyncIo>(io));
  };
}

}  // namespace ds
