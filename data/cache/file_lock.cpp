#include "data/cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ds {

FileLock::FileLock(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (!fd_.valid()) throw_io_error("open", path_, errno);
}

bool FileLock::try_lock(LockKind kind) {
  const int wanted = kind == LockKind::kExclusive ? LOCK_EX : LOCK_SH;
  while (::flock(fd_.get(), wanted | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) throw_io_error("lock", path_, errno);
  }
  return true;
}

bool FileLock::has_its_file() const {
  struct stat here {
  }, there{};
  if (::fstat(fd_.get(), &here) != 0) throw_io_error("stat", path_, errno);
  if (::stat(path_.c_str(), &there) != 0) {
    if (errno == ENOENT) return false;
    throw_io_error("stat", path_, errno);
  }
  return here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

std::unique_ptr<PassingLock> PassingLock::try_take(const std::string& path) {
  // The one who held the file may have removed it before it was locked here.
  for (;;) {
    FileLock lock(path);
    if (!lock.try_lock(LockKind::kExclusive)) return nullptr;
    if (lock.has_its_file()) return std::make_unique<PassingLock>(path, std::move(lock));
  }
}

PassingLock::PassingLock(std::string path, FileLock lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

// It is removed while it is locked: whoever opened it sees that it has no file.
PassingLock::~PassingLock() { ::unlink(path_.c_str()); }

}  // namespace ds
