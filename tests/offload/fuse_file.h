// A file system of FUSE with one file, whose transfers fail or are short when a test wants it: what
// the kernel makes of a device's faults on its way to who asked. Talks to /dev/fuse itself; needs
// root. Nothing of the file is kept in the page cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/files/file.h"

namespace ds::test {

enum class FuseFault {
  kNone,
  kError,
  kShort
};  // kError: EIO; kShort: half, if there are two bytes

class FuseFile {
 public:
  // Null where the machine has no FUSE for us; `why` then says what is missing.
  static std::unique_ptr<FuseFile> mount(const std::string& folder, size_t bytes, std::string& why);
  ~FuseFile();                         // who opened the file has closed it
  FuseFile(const FuseFile&) = delete;  // owns the mount
  FuseFile& operator=(const FuseFile&) = delete;

  std::string path() const { return folder_ + "/file"; }
  std::vector<std::byte> contents() const;
  void set_contents(std::span<const std::byte> bytes);
  // From now on, of the reads and writes, counted from 0, number `first` and the `times` - 1 after.
  void play(FuseFault fault, int64_t first, int64_t times);
  int64_t played() const;
  // Some servers know nothing of statfs.
  void answer_statfs(bool answers) { answers_statfs_ = answers; }

 private:
  FuseFile(std::string folder, Fd device, size_t bytes);
  void serve();
  void answer(std::span<const std::byte> request);
  void answer_read(uint64_t unique, const std::byte* argument);
  void answer_write(uint64_t unique, const std::byte* argument);
  void reply(uint64_t unique, int error_number, const void* data, size_t bytes) const;
  FuseFault next_fault();

  const std::string folder_;
  const Fd device_;
  mutable std::mutex file_mutex_;
  std::vector<std::byte> contents_;
  FuseFault fault_ = FuseFault::kNone;
  int64_t first_ = 0;
  int64_t times_ = 0;
  int64_t count_ = 0;
  int64_t played_ = 0;
  std::atomic<bool> answers_statfs_ = true;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace ds::test
