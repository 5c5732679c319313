// What every example needs: a folder, a size, and an exit code for what is not there.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "core/memory/resource.h"
#include "core/status/error.h"
#include "core/tasks/thread_pool.h"

namespace ds::example {

struct Place {
  std::string file;         // that is not there yet
  int64_t bytes = 1 << 20;  // of the tensor
};

// Tensors of the host come from a stream of the CPU.
struct Host {
  HostMemory memory;
  ThreadPool pool{1};
  Stream stream{{.memory = &memory, .pool = &pool}};
};

inline Tensor bytes_of_value(int64_t bytes, uint8_t value, Stream& stream) {
  const Tensor tensor = Tensor::empty({bytes}, DType::kU8, stream);
  stream.fill_bytes(tensor.address(), value, tensor.bytes());
  return tensor;
}

// Stops an example that does not show what it says.
inline void expect(bool holds, std::string_view what) {
  if (!holds) throw InternalError(fmt::format("example: expected {}", what));
  fmt::print("{}\n", what);
}

inline int64_t bytes_in(std::string_view text) {
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end.ptr, text.data() + text.size());
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (end.ec != std::errc() || shift < 0 || value < 1)
    throw UsageError(fmt::format("{}: expected bytes, such as 1M", text));
  return value << shift;
}

// The program: PROGRAM FOLDER [BYTES]. Ends with 77 where the machine or build lacks something.
inline int run(int argc, char** argv, const std::function<void(const Place&)>& body) {
  try {
    if (argc < 2 || argc > 3) throw UsageError(fmt::format("usage: {} FOLDER [BYTES]", argv[0]));
    Place place;
    const std::string program = std::filesystem::path(argv[0]).filename().string();
    place.file = (std::filesystem::path(argv[1]) / (program + ".tensor")).string();
    if (argc == 3) place.bytes = bytes_in(argv[2]);
    std::filesystem::remove(place.file);
    body(place);
    std::filesystem::remove(place.file);
    return 0;
  } catch (const Unsupported& missing) {
    fmt::print("skipped: {}\n", missing.what());
    return 77;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace ds::example
