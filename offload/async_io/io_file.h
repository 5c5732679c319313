// IoFile: an open file for asynchronous reading and writing, by two descriptors of one file: one
// through the page cache, and one past it (O_DIRECT) where the file system has that. It moves no
// bytes: AsyncIo does, and decides which part goes by which descriptor.
#pragma once

#include <cstdint>
#include <string>

#include "core/files/file.h"

namespace ds {

enum class OpenMode {
  kRead,       // what is there
  kReadWrite,  // what is there, made if it is not
  kCreate,     // a new file; IoError if the path exists
};

// Whether a program of a user serves this file or folder (FUSE, as sshfs and many object stores
// do).
bool is_on_fuse(const std::string& path);

// What a block has to be a multiple of to go past the page cache.
struct DirectAlignment {
  int64_t offset =
      0;  // bytes, of offsets and lengths: at least a page (see AsyncIo); 0: not at all
  int64_t memory = 0;  // bytes, of addresses
};

// Movable; must outlive every transfer and every registration it is part of. Thread-safe once open.
class IoFile {
 public:
  // InputMissing if there is none; NotAFile for a directory, FIFO, socket or device; IoError.
  static IoFile open(const std::string& path, OpenMode mode);
  // The same without O_DIRECT.
  static IoFile open_cached(const std::string& path, OpenMode mode);

  const std::string& path() const { return path_; }
  int64_t size() const;  // bytes, as of now
  // Reserves storage for bytes [0, bytes), so that a full disk is met before the first write, and
  // writes past the page cache do not wait for each other to grow the file.
  void allocate(int64_t bytes);
  // Makes the content durable. After a failure the content is lost.
  void sync();

  int fd() const { return cached_.get(); }
  int direct_fd() const { return direct_.get(); }  // -1: everything goes through the page cache
  const DirectAlignment& alignment() const { return alignment_; }
  bool is_on_fuse() const { return is_on_fuse_; }
  // Why there is no direct descriptor: "tmpfs knows no O_DIRECT"; empty where there is one.
  const std::string& why_cached() const { return why_cached_; }

 private:
  IoFile() = default;
  void open_direct(int flags);

  std::string path_;
  Fd cached_;
  Fd direct_;
  DirectAlignment alignment_;
  std::string why_cached_;
  bool is_on_fuse_ = false;
};

}  // namespace ds
