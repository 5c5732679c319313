// What a rank swaps out: where its swap files are, and how they are read and written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "offload/async_io/io_options.h"
#include "offload/swapper.h"

namespace ds {

struct SwapFolder {
  std::string nvme_path;
  std::string of;  // what lies there: "parameters", a folder of that path
  SwapOwner owner{};
  IoOptions io{};  // its folder is filled in
};

// Makes the swap file when it is called. ConfigError where the path is not there; throws what
// Swapper() and AsyncIo() throw.
std::function<std::unique_ptr<Swapper>(int64_t bytes)> swap_opener(const SwapFolder& place);

}  // namespace ds
