#include "offload/async_io/io_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/memory/rounding.h"

namespace ds {

namespace {

constexpr mode_t kMode = 0644;

int flags_of(OpenMode mode) {
  constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // never blocks on a FIFO
  switch (mode) {
    case OpenMode::kRead:
      return O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    case OpenMode::kReadWrite:
      return O_RDWR | O_CREAT | kAlways;
    case OpenMode::kCreate:
      return O_RDWR | O_CREAT | O_EXCL | kAlways;
  }
  throw InternalError("IoFile: unknown mode");
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_io_error("fstat", path, errno);
  return status;
}

std::string own_path_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

}  // namespace

// Only a program of a user can be without an answer.
bool is_on_fuse(const std::string& path) {
  struct statfs system {};
  return ::statfs(path.c_str(), &system) != 0 ? errno == ENOSYS : system.f_type == FUSE_SUPER_MAGIC;
}

IoFile IoFile::open_cached(const std::string& path, OpenMode mode) {
  IoFile file;
  file.path_ = path;
  file.cached_ = Fd(::open(path.c_str(), flags_of(mode), kMode));
  if (!file.cached_.valid()) throw_io_error("open", path, errno);
  if (!S_ISREG(status_of(file.fd(), path).st_mode)) {
    throw NotAFile(path + " is no regular file, and asynchronous I/O needs one");
  }
  // It was for opening alone: io_uring would not wait for pages of such a file.
  const int flags = ::fcntl(file.fd(), F_GETFL);
  if (flags < 0 || ::fcntl(file.fd(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    throw_io_error("fcntl", path, errno);
  }
  file.why_cached_ = "it was opened so";
  file.is_on_fuse_ = ds::is_on_fuse(own_path_of(file.fd()));
  return file;
}

IoFile IoFile::open(const std::string& path, OpenMode mode) {
  IoFile file = open_cached(path, mode);
  file.open_direct(mode == OpenMode::kRead ? O_RDONLY : O_RDWR);
  if (file.direct_fd() < 0) {
    spdlog::info("{}: through the page cache, since {}", path, file.why_cached_);
  }
  return file;
}

// The same file by its descriptor: the path may mean another one by now.
void IoFile::open_direct(int flags) {
  direct_ = Fd(::open(own_path_of(fd()).c_str(), flags | O_DIRECT | O_CLOEXEC));
  if (!direct_.valid()) {
    why_cached_ = fmt::format("its file system refuses O_DIRECT: {}", std::strerror(errno));
    return;
  }
  // What every device takes, where the system does not say.
  int64_t offset = kUncachedAlignment;
  int64_t memory = kUncachedAlignment;
#ifdef STATX_DIOALIGN
  struct statx status {};
  const int result = ::statx(direct_.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status);
  if (result == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    offset = status.stx_dio_offset_align;
    memory = status.stx_dio_mem_align;
    if (offset == 0 || memory == 0) {
      why_cached_ = "its file system does no direct I/O on it (statx)";
      direct_ = Fd();
      return;
    }
  }
#endif
  // Two requests may share a page. A part of one that goes through the page cache, and is written
  // back as a whole page, would undo what the other wrote past the cache: so direct means whole
  // pages.
  alignment_ = {round_up(std::max<int64_t>(offset, ::sysconf(_SC_PAGESIZE)), offset), memory};
  why_cached_.clear();
}

int64_t IoFile::size() const { return status_of(fd(), path_).st_size; }

void IoFile::allocate(int64_t bytes) {
  int result = 0;
  do {
    result = ::posix_fallocate(fd(), 0, bytes);
  } while (result == EINTR);
  if (result != 0) throw_io_error(fmt::format("reserve {} bytes for", bytes), path_, result);
}

void IoFile::sync() {
  if (::fsync(fd()) != 0) throw_io_error("fsync", path_, errno);
}

}  // namespace ds
