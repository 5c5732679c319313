// A decorator that says how many bytes were read and written, so that what reads or writes much can
// show that it moves. Everything else is as below.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/files/file.h"

namespace ds {

// Called after each read and write that was done, by whichever thread did it: where in the file it
// ended, and how many bytes it had.
using OnBytes = std::function<void(int64_t end, int64_t bytes)>;

class WatchedFile final : public File {
 public:
  WatchedFile(std::unique_ptr<File> inner, OnBytes on_bytes)
      : File(inner->path()), inner_(std::move(inner)), on_bytes_(std::move(on_bytes)) {}

  int64_t size() const override { return inner_->size(); }
  void read(int64_t offset, std::span<std::byte> into) const override;
  bool is_cached() const override { return inner_->is_cached(); }
  void write(int64_t offset, std::span<const std::byte> from) override;
  void allocate(int64_t bytes) override { inner_->allocate(bytes); }
  void sync() override { inner_->sync(); }

 private:
  std::unique_ptr<File> inner_;
  OnBytes on_bytes_;
};

// Thread-safe, as far as `on_bytes` is. The file system below must outlive it.
class WatchedFiles final : public FileSystem {
 public:
  WatchedFiles(FileSystem& inner, OnBytes on_bytes)
      : inner_(inner), on_bytes_(std::move(on_bytes)) {}

  using FileSystem::create;
  using FileSystem::open;
  std::unique_ptr<File> open(const std::string& path, Caching caching) override;
  std::unique_ptr<File> create(const std::string& path, Caching caching) override;
  void rename(const std::string& from, const std::string& to) override { inner_.rename(from, to); }
  void make_directory(const std::string& path) override { inner_.make_directory(path); }
  void sync_directory(const std::string& path) override { inner_.sync_directory(path); }
  void remove(const std::string& path) override { inner_.remove(path); }
  std::vector<DirectoryEntry> list(const std::string& path) const override {
    return inner_.list(path);
  }
  bool exists(const std::string& path) const override { return inner_.exists(path); }
  int64_t free_bytes(const std::string& path) const override { return inner_.free_bytes(path); }

 private:
  FileSystem& inner_;
  OnBytes on_bytes_;
};

}  // namespace ds
