// Files behind an interface, so that every failure of a disk can be produced in a test: the real
// file system here, one in memory with a crash model (tests/support/files/memory_file_system.h),
// and a decorator that makes the k-th call fail (tests/support/files/fault_file_system.h). Nothing
// here retries, and nothing falls back silently: reads and writes are complete or an exception
// names the path, the offset and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status/io_error.h"

namespace ds {

// An open file. Not thread-safe, except that several threads may read(), or write() disjoint
// ranges.
class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  File(const File&) = delete;  // owns a descriptor
  File& operator=(const File&) = delete;
  virtual ~File() = default;

  virtual int64_t size() const = 0;
  // Fills `into` from `offset`; IoError naming the missing range if the file ends before.
  virtual void read(int64_t offset, std::span<std::byte> into) const = 0;
  // Whether the first page is in memory, so that going past the cache would be a waste.
  virtual bool is_cached() const = 0;
  // Writes all of `from` at `offset`, growing the file as needed.
  virtual void write(int64_t offset, std::span<const std::byte> from) = 0;
  // Reserves storage for bytes [0, bytes), so that a full disk is met before the first write.
  virtual void allocate(int64_t bytes) = 0;
  // Makes the content durable. After a failure the content is lost: never retry, write a new file.
  virtual void sync() = 0;

  void append(std::span<const std::byte> from) { write(size(), from); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct DirectoryEntry {
  std::string name;
  enum class Kind { kFile, kDirectory, kOther } kind;
};

enum class Caching {
  kCached,    // through the page cache
  kUncached,  // past it (O_DIRECT) where the file system can; aligned offsets, lengths, addresses
};
inline constexpr int64_t kUncachedAlignment = 4096;

// All paths are used as given; symbolic links in the last component are refused when creating.
// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A regular file for reading. InputMissing if there is none; NotAFile for a directory, FIFO or
  // device (never blocks on one).
  virtual std::unique_ptr<File> open(const std::string& path, Caching caching) = 0;
  // A new file for writing; IoError if the path exists.
  virtual std::unique_ptr<File> create(const std::string& path, Caching caching) = 0;
  std::unique_ptr<File> open(const std::string& path) { return open(path, Caching::kCached); }
  std::unique_ptr<File> create(const std::string& path) { return create(path, Caching::kCached); }

  // Atomically replaces `to`, as rename(2) does. Durable only after sync_directory of both parents.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void make_directory(const std::string& path) = 0;  // IoError if it exists
  virtual void sync_directory(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;  // a file or an empty directory
  virtual std::vector<DirectoryEntry> list(const std::string& path) const = 0;  // sorted by name
  virtual bool exists(const std::string& path) const = 0;
  virtual int64_t free_bytes(const std::string& path) const = 0;

  // Creates what is missing of the path and makes each new entry durable.
  void make_directories(const std::string& path);
  // Removes a directory and everything below it; symbolic links are removed, not followed.
  void remove_tree(const std::string& path);
  // The whole file as text; DataError if it is larger than max_bytes.
  std::string read_text(const std::string& path, int64_t max_bytes);
  // Replaces the file so that a crash leaves the old or the new text, never a part: temporary file
  // in the same directory, sync, rename, sync of the directory.
  void write_text_atomically(const std::string& path, std::string_view text);
};

class RealFileSystem : public FileSystem {
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

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

// These read and write all bytes, whatever the kernel moves at a time. Errors name `path` and the
// offset: IoError, also when there are fewer bytes than asked for; DiskFull.
void read_fully(int fd, int64_t offset, std::span<std::byte> into, std::string_view path);
void write_fully(int fd, int64_t offset, std::span<const std::byte> from, std::string_view path);

std::string parent_directory(const std::string& path);  // "." where there is no slash
std::string join_path(const std::string& directory, std::string_view name);

// Opens for reading what strangers may have put there, without ever waiting for it: a regular file,
// or a link to one. InputMissing if there is none, NotAFile for a directory, FIFO, socket or
// device, else IoError.
Fd open_regular_file(const std::string& path, Caching caching = Caching::kCached);

}  // namespace ds
