// The entries of a zip archive, by its central directory alone: zip64 too, stored entries in place
// and deflated ones inflated under a bound. Archives are hostile until proved otherwise: refused
// are encryption, other methods, names that leave the folder, names that are there twice, entries
// that overlap or lie outside of the file, and several disks. Nothing is extracted to disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct ZipEntry {
  std::string_view name;
  enum class Method : uint8_t { kStored, kDeflated } method;
  int64_t offset = 0;  // of the first byte of the data, from the start of the archive
  int64_t stored_bytes = 0;
  int64_t bytes = 0;  // inflated
  uint32_t crc32 = 0;
};

class ZipReader {
 public:
  // Whether bytes begin as a zip does.
  static bool is_zip(std::span<const std::byte> bytes);

  // `archive` outlives the reader; `path` is its name in messages. DataError with what is wrong.
  ZipReader(std::string path, std::span<const std::byte> archive);

  const std::vector<ZipEntry>& entries() const { return entries_; }  // as the directory has them
  const ZipEntry* find(std::string_view name) const;                 // null without it
  // The bytes of a stored entry, in place; no checksum is computed, as that reads all of them.
  std::span<const std::byte> stored(const ZipEntry& entry) const;
  // DataError unless the entry has these bytes, by their checksum. Zero is none: PyTorch writes it
  // after torch.serialization.set_crc32_options(False).
  void check(const ZipEntry& entry, std::span<const std::byte> bytes) const;
  // A copy of an entry of either method, its checksum compared. DataError, before any memory is
  // taken, for one of more than `bytes_max`.
  std::vector<std::byte> read(const ZipEntry& entry, int64_t bytes_max) const;

 private:
  std::string path_;
  std::span<const std::byte> archive_;
  std::vector<ZipEntry> entries_;
  std::vector<uint32_t> by_name_;  // places in entries_
};

}  // namespace ds
