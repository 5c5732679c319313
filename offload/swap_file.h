// SwapFile: the file of one rank that its state is swapped to, from the moment it is made until it
// is removed. Its room is reserved at once, so that a disk that is too small is known before the
// first step. Only its owner can read it (0600), and for its life it is locked (flock): what dead
// processes of the job left behind is removed, what a living one uses is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/files/file.h"
#include "offload/async_io/io_file.h"
#include "offload/swap_format.h"

namespace ds {

// Confined to one thread, but for io(), which is thread-safe.
class SwapFile {
 public:
  // Makes "<directory>/<job>.rank-<rank>.swap" with room for `bytes` behind its header. The
  // directory has to exist. DiskFull with what is needed and what is free, and no file is left;
  // IoError naming the holder if a living process has the file; NotAFile or DataError if what is
  // there is none of ours, which is never removed.
  SwapFile(const std::string& directory, const SwapOwner& owner, int64_t bytes);
  ~SwapFile();                         // removes it
  SwapFile(const SwapFile&) = delete;  // owns the file
  SwapFile& operator=(const SwapFile&) = delete;

  const std::string& path() const { return path_; }
  const IoFile& io() const { return *io_; }
  int64_t file_bytes() const { return file_bytes_; }  // as it was made

 private:
  void create();
  void replace_what_is_there();
  void refuse_what_lives(int fd) const;
  void remove_leftovers() const;
  void remove_leftover(const std::string& path) const;
  void reserve();
  void open_for_io();

  const std::string directory_;
  const std::string path_;
  const SwapOwner owner_;
  const int64_t file_bytes_;
  Fd fd_;  // holds the lock
  std::unique_ptr<IoFile> io_;
};

}  // namespace ds
