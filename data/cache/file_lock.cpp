#include "data/cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

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

}  // namespace ds
