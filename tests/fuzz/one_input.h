// What the fuzz targets share: the input as a file in memory, and the rule that a parser may only
// throw errors that blame the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tests/support/files/memory_file_system.h"

namespace ds::fuzz {

inline std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline void put(FileSystem& fs, const std::string& path, std::span<const std::byte> bytes) {
  fs.create(path)->write(0, bytes);
}

// InternalError is not among the ways to refuse an input: it would be a bug of ours.
template <class Work>
void expect_refusal_or_success(const Work& work) {
  try {
    work();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

}  // namespace ds::fuzz
