// The bytes of a file from its beginning to its end, decompressed where they are compressed. What
// comes out of compressed files is bounded, so that a small file cannot fill the memory:
// kLargestText bytes in all unless the reader says otherwise, and beyond kSmallText no more than
// kLargestRatio times what was read.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/files/file.h"
#include "data/text/text_kind.h"

namespace ds {

inline constexpr int64_t kLargestText = int64_t{4} << 30;
inline constexpr int64_t kSmallText = int64_t{16} << 20;
inline constexpr int64_t kLargestRatio = 200;

// Confined to one thread.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills the beginning of `into` and says how much of it; 0 at the end only. DataError for damaged
  // or truncated compressed data and beyond the bounds; else as File::read throws.
  virtual size_t read(std::span<char> into) = 0;
};

// `most`: in all, where what comes out is not held in memory.
std::unique_ptr<ByteStream> open_byte_stream(std::unique_ptr<File> file, Compression compression,
                                             int64_t most = kLargestText);

// All bytes of a file, decompressed as its first bytes ask for. Throws as FileSystem::open and
// ByteStream::read.
std::string read_decompressed(FileSystem& files, const std::string& path);

}  // namespace ds
