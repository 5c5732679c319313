#include "core/files/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {

namespace {
// One system call moves at most 2^31 - 4096 bytes on Linux; larger requests are split.
constexpr size_t kLargestTransfer = size_t{1} << 30;
}  // namespace

void read_fully(int fd, int64_t offset, std::span<std::byte> into, std::string_view path) {
  const int64_t end = offset + narrow<int64_t>(into.size());
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), std::min(into.size(), kLargestTransfer), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_io_error(fmt::format("read at byte {} of", offset), path, errno);
    if (got == 0) {
      throw IoError(fmt::format("read {}: the file ends at byte {}, expected at least {} bytes",
                                path, offset, end));
    }
    into = into.subspan(to_size(got));
    offset += got;
  }
}

void write_fully(int fd, int64_t offset, std::span<const std::byte> from, std::string_view path) {
  while (!from.empty()) {
    const ssize_t put = ::pwrite(fd, from.data(), std::min(from.size(), kLargestTransfer), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      throw_io_error(fmt::format("write at byte {} of", offset), path, put < 0 ? errno : EIO);
    }
    from = from.subspan(to_size(put));
    offset += put;
  }
}

namespace {

class RealFile final : public File {
 public:
  RealFile(std::string path, Fd fd) : File(std::move(path)), fd_(std::move(fd)) {}

  int64_t size() const override {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) throw_io_error("stat", path(), errno);
    return info.st_size;
  }

  void read(int64_t offset, std::span<std::byte> into) const override {
    read_fully(fd_.get(), offset, into, path());
  }

  bool is_cached() const override {
    std::byte first{};
    iovec part{&first, 1};
    return ::preadv2(fd_.get(), &part, 1, 0, RWF_NOWAIT) == 1;
  }

  void write(int64_t offset, std::span<const std::byte> from) override {
    write_fully(fd_.get(), offset, from, path());
  }

  void allocate(int64_t bytes) override {
    if (bytes == 0) return;
    int result = 0;
    do {
      result = ::posix_fallocate(fd_.get(), 0, bytes);
    } while (result == EINTR);
    if (result != 0) throw_io_error(fmt::format("reserve {} bytes for", bytes), path(), result);
  }

  void sync() override {
    if (::fsync(fd_.get()) != 0) throw_io_error("fsync", path(), errno);
  }

 private:
  Fd fd_;
};

// File systems without O_DIRECT (tmpfs) refuse the flag with EINVAL; the caching is then theirs.
int open_with_caching(const std::string& path, int flags, Caching caching) {
  constexpr mode_t kMode = 0666;
  if (caching == Caching::kUncached) {
    const int fd = ::open(path.c_str(), flags | O_DIRECT, kMode);
    if (fd >= 0 || errno != EINVAL) return fd;
    // The failed attempt may have created the file already.
    flags &= ~O_EXCL;
  }
  return ::open(path.c_str(), flags, kMode);
}

// For what a failed call leaves; where that cannot be removed either, the next attempt does it.
void remove_if_possible(FileSystem& files, const std::string& path) {
  try {
    if (files.exists(path)) files.remove(path);
  } catch (const Error&) {
    return;
  }
}

}  // namespace

namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular_file(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return;
  throw NotAFile(fmt::format("open {}: it is {}, not a regular file", path, kind_of(info.st_mode)));
}

}  // namespace

// Opening a FIFO must not wait for a writer before it is refused, nor a terminal become ours; a
// socket cannot be opened at all.
Fd open_regular_file(const std::string& path, Caching caching) {
  struct stat info {};
  Fd fd(open_with_caching(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, caching));
  const int error = errno;
  if (!fd.valid()) {
    if (error == ENXIO && ::stat(path.c_str(), &info) == 0) require_regular_file(path, info);
    throw_io_error("open", path, error);
  }
  if (::fstat(fd.get(), &info) != 0) throw_io_error("stat", path, errno);
  require_regular_file(path, info);
  return fd;
}

std::unique_ptr<File> RealFileSystem::open(const std::string& path, Caching caching) {
  return std::make_unique<RealFile>(path, open_regular_file(path, caching));
}

std::unique_ptr<File> RealFileSystem::create(const std::string& path, Caching caching) {
  Fd fd(open_with_caching(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, caching));
  if (!fd.valid()) throw_io_error("create", path, errno);
  return std::make_unique<RealFile>(path, std::move(fd));
}

void RealFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw_io_error("rename", fmt::format("{} to {}", from, to), errno);
  }
}

void RealFileSystem::make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) throw_io_error("make directory", path, errno);
}

void RealFileSystem::sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) throw_io_error("open directory", path, errno);
  if (::fsync(fd.get()) != 0) throw_io_error("fsync directory", path, errno);
}

void RealFileSystem::remove(const std::string& path) {
  if (::remove(path.c_str()) != 0) throw_io_error("remove", path, errno);
}

std::vector<DirectoryEntry> RealFileSystem::list(const std::string& path) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (directory == nullptr) throw_io_error("list", path, errno);
  std::vector<DirectoryEntry> entries;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr && errno != 0) throw_io_error("list", path, errno);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info {};
    if (::lstat(join_path(path, name).c_str(), &info) != 0) continue;  // removed meanwhile
    auto kind = DirectoryEntry::Kind::kOther;
    if (S_ISREG(info.st_mode)) kind = DirectoryEntry::Kind::kFile;
    if (S_ISDIR(info.st_mode)) kind = DirectoryEntry::Kind::kDirectory;
    entries.push_back({name, kind});
  }
  std::sort(entries.begin(), entries.end(),
            [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
  return entries;
}

bool RealFileSystem::exists(const std::string& path) const {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw_io_error("stat", path, errno);
}

int64_t RealFileSystem::free_bytes(const std::string& path) const {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) throw_io_error("free space of", path, errno);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

void FileSystem::make_directories(const std::string& path) {
  if (exists(path)) return;
  const std::string parent = parent_directory(path);
  if (parent != path) make_directories(parent);
  try {
    make_directory(path);
  } catch (const IoError&) {
    if (!exists(path)) throw;  // several ranks may make the same directory at once
  }
  sync_directory(parent);
}

void FileSystem::remove_tree(const std::string& path) {
  for (const DirectoryEntry& entry : list(path)) {
    const std::string child = join_path(path, entry.name);
    if (entry.kind == DirectoryEntry::Kind::kDirectory) {
      remove_tree(child);
    } else {
      remove(child);
    }
  }
  remove(path);
}

std::string FileSystem::read_text(const std::string& path, int64_t max_bytes) {
  const std::unique_ptr<File> file = open(path);
  const int64_t size = file->size();
  if (size > max_bytes) {
    throw DataError(
        fmt::format("read {}: the file has {} bytes, expected at most {}", path, size, max_bytes));
  }
  std::string text(to_size(size), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void FileSystem::write_text_atomically(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  if (exists(temporary)) remove(temporary);
  try {
    {
      const std::unique_ptr<File> file = create(temporary);
      DS_FAILPOINT("text.created");
      file->write(0, std::as_bytes(std::span(text)));
      DS_FAILPOINT("text.written");
      file->sync();
    }
    DS_FAILPOINT("text.synced");
    rename(temporary, path);
  } catch (const Error&) {
    remove_if_possible(*this, temporary);
    throw;
  }
  DS_FAILPOINT("text.renamed");
  sync_directory(parent_directory(path));
}

Fd& Fd::operator=(Fd&& other) noexcept {
  Fd old(std::exchange(fd_, other.release()));
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

int Fd::release() { return std::exchange(fd_, -1); }

std::string parent_directory(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string join_path(const std::string& directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  if (directory.back() == '/') return directory + std::string(name);
  return fmt::format("{}/{}", directory, name);
}

}  // namespace ds
