// What Git LFS leaves in the place of a file that it has not fetched: a short text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/status/error.h"

namespace ds {

inline constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";
inline constexpr std::string_view kLfsWords = "a pointer of Git LFS to the file";
inline constexpr std::string_view kLfsAdvice = "fetch the file itself: git lfs pull";

// DataError for a file that begins as a pointer does.
inline void refuse_lfs_pointer(const std::string& path, std::string_view beginning) {
  if (!beginning.starts_with(kLfsPointer)) return;
  throw DataError(fmt::format("{}: {}; {}", path, kLfsWords, kLfsAdvice));
}

}  // namespace ds
