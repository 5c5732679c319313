// Zip archives of stored entries (APPNOTE 6.3.10), one after another, with the elements of each at
// a multiple of 64 bytes, as torch.save writes them, so that a reader may map them. The bytes
// depend on the entries alone: every time is 1980-01-01. Lengths and places beyond 32 bits are
// written as zip64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"

namespace ds {

// Confined to one thread. What is not finished is a file without a directory, which no reader
// takes.
class ZipWriter {
 public:
  // A new file; IoError where it is there.
  ZipWriter(FileSystem& files, const std::string& path);

  // Entries have names of ASCII that differ. IoError or DiskFull.
  void add(const std::string& name, std::span<const std::byte> content);
  void finish();  // writes the directory and makes the file durable

 private:
  struct Entry {
    std::string name;
    uint32_t crc = 0;
    uint64_t bytes = 0;
    uint64_t at = 0;  // of its header
  };
  void put(std::string_view bytes);
  void put_directory();

  std::unique_ptr<File> file_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace ds
