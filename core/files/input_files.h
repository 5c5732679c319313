// A decorator for reading what the user named: data, tokenizers, models, configurations. What is
// wrong there stays wrong when it is tried again, and is no matter of disk room: where the file
// system below says IoError, this says InputMissing (it cannot be read) or DataError (it is no file
// that can be read). It writes nothing.
#pragma once

#include "core/files/file.h"

namespace ds {

// Thread-safe. The file system below must outlive it and the files it opened.
class InputFiles : public FileSystem {
 public:
  explicit InputFiles(FileSystem& inner) : inner_(inner) {}

  using FileSystem::create;
  using FileSystem::open;
  // DataError for a directory, FIFO, socket or device; InputMissing where there is nothing or no
  // permission. Reading from the file throws InputMissing where the system cannot.
  std::unique_ptr<File> open(const std::string& path, Caching caching) override;
  std::vector<DirectoryEntry> list(const std::string& path) const override;
  bool exists(const std::string& path) const override;

  // A caller's mistake: InternalError.
  std::unique_ptr<File> create(const std::string& path, Caching caching) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void remove(const std::string& path) override;
  int64_t free_bytes(const std::string& path) const override;

 private:
  FileSystem& inner_;
};

}  // namespace ds
