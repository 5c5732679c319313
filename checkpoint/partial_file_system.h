// A file system that offers a few of its operations and refuses the others: the base of the narrow
// ones beneath which the writer and the reader of checkpoints work on memory. What a caller asks
// for in vain is a mistake of ours: InternalError.
#pragma once

#include "core/files/file.h"

namespace ds {

class PartialFileSystem : public FileSystem {
 public:
  using FileSystem::create;
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Caching caching) override;
  std::unique_ptr<File> create(const std::string& path, Caching caching) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void remove(const std::string& path) override;
  std::vector<DirectoryEntry> list(const std::string& path) const override;
  bool exists(const std::string& path) const override;
  int64_t free_bytes(const std::string& path) const override;
};

}  // namespace ds
