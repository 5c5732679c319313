// The bytes of a swap file (pure). A swap file is scratch of one rank of one epoch of one job: it
// is made anew at every start and nobody reads it after a restart. What is read back from it is
// still trusted no further than its digests go.
//
//   file    header (4096 bytes), then extents
//   extent  header (a multiple of 4096 bytes), then the data, then what is left of its last page
//
// Numbers are little-endian and have 8 bytes. Both headers begin with 8 bytes of magic, the
// format's version and the XXH3-128 of all that follows in the header, unused bytes included. An
// extent's header says whose it is (job, epoch, rank, world), the key, the generation, the length,
// and the digest of each block of the data (the last may be shorter). It does not matter which of
// header and data reaches the disk first: unless both are of one write, their digests differ. XXH3
// finds accidents, not forgers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status/error.h"

namespace ds {

inline constexpr int64_t kSwapPage = 4096;  // bytes; extents and data begin at multiples of it
inline constexpr int64_t kSwapBlockBytes = int64_t{1} << 20;  // that one digest covers
inline constexpr size_t kSwapJobBytes = 128;                  // longest name of a job
inline constexpr size_t kSwapKeyBytes = 256;                  // longest key

// Beside its class, of every error that a swap file is the reason of: whoever reads or writes
// something else meanwhile knows that it is not to blame.
class SwapFault {
 public:
  virtual ~SwapFault() = default;
};
// What was read is not what was written. The state has to come from a checkpoint.
class SwapCorrupt : public IoError, public SwapFault {
 public:
  explicit SwapCorrupt(const std::string& m) : IoError(m) {}
};

using SwapDigest = std::array<std::byte, 16>;

struct SwapOwner {
  std::string job;
  int64_t epoch = 0;
  int rank = 0;
  int world = 1;
  bool operator==(const SwapOwner&) const = default;
};
std::string to_string(const SwapOwner& owner);  // "job x, generation 3, rank 1 of 8"

struct SwapFileHeader {
  SwapOwner owner;
  int64_t file_bytes = 0;
  int64_t pid = 0;   // of who made it, for the message to who finds it locked
  std::string host;  // where that runs; shortened to 64 bytes
};
std::vector<std::byte> encode(const SwapFileHeader& header);  // kSwapPage bytes
// Whether the file is one of ours at all, damaged or not.
bool has_swap_magic(std::span<const std::byte> page);
// SwapCorrupt naming the path, what was expected and what was found.
SwapFileHeader parse_swap_file_header(std::span<const std::byte> page, std::string_view path);

struct SwapExtent {
  SwapOwner owner;
  std::string key;
  int64_t generation = 0;
  int64_t length = 0;  // bytes of data
  int64_t block_bytes = kSwapBlockBytes;
  std::vector<SwapDigest> blocks;
};
SwapExtent describe_swap_extent(const SwapOwner& owner, std::string_view key, int64_t generation,
                                int64_t block_bytes, std::span<const std::byte> data);
int64_t swap_extent_header_bytes(int64_t length, int64_t block_bytes);
// Header and data, whole pages.
int64_t swap_extent_bytes(int64_t length, int64_t block_bytes);
// Fills `into`, which has swap_extent_header_bytes().
void encode(const SwapExtent& extent, std::span<std::byte> into);

struct SwapPlace {
  std::string_view path;
  int64_t offset = 0;  // of the extent in the file, bytes
};
// SwapCorrupt unless header and data are what was written as `expected`: it names path, key,
// offset, what was expected and what was found, and what that may come from.
void check_swap_extent(std::span<const std::byte> header, std::span<const std::byte> data,
                       const SwapExtent& expected, const SwapPlace& place);

}  // namespace ds
