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
  std::string of;  // what lies there: "parameters"; part of files' names
  SwapOwner owner{};
  IoOptions io{};                   // its folder is filled in
  BackgroundLog* beside = nullptr;  // as SwapperOptions has it
};

// Makes a swap file each time it is called: the job's name in it is followed by what lies there,
// and by a number from the second on. Throws what Swapper() and AsyncIo() throw.
using SwapOpener = std::function<std::unique_ptr<Swapper>(int64_t bytes)>;
// In a folder of the job (SwapDirectory), which is there for as long as the opener and copies of
// it. Throws what SwapDirectory() throws.
SwapOpener swap_opener(const SwapFolder& place);

}  // namespace ds
