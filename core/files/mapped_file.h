// A file mapped read-only into memory for the life of the object. For inputs that are read in place
// and shared between the ranks of a host through the page cache (token files, safetensors); it
// refuses to write, and it is not for files that shrink while mapped (the system would raise
// SIGBUS).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ds {

class MappedFile {
 public:
  MappedFile() = default;  // maps nothing; bytes() is empty
  // Throws InputMissing when the file cannot be opened, DataError when it is not a regular file,
  // IoError when mapping fails. An empty file is an empty span.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;  // the mapping has one owner
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace ds
