// A lock that processes of a machine, and of machines that share the folder, hold on a file of its
// own (flock): it is gone with its holder, however that ends.
#pragma once

#include <memory>
#include <string>

#include "core/files/file.h"

namespace ds {

enum class LockKind { kExclusive, kShared };

class FileLock {
 public:
  // Makes the file, where there is none, for its user alone; IoError.
  explicit FileLock(const std::string& path);

  // Takes the lock, or changes the one that is held, if nobody else's is in the way; at once.
  bool try_lock(LockKind kind);
  bool has_its_file() const;  // whether the path is still that of the file that it locks

 private:
  std::string path_;
  Fd fd_;
};

// A lock whose file goes with it, so that nothing is left beside what it is for.
class PassingLock {
 public:
  // Nothing where somebody holds it; IoError.
  static std::unique_ptr<PassingLock> try_take(const std::string& path);
  explicit PassingLock(std::string path, FileLock lock);
  ~PassingLock();
  PassingLock(const PassingLock&) = delete;  // its file is removed once

 private:
  std::string path_;
  FileLock lock_;
};

}  // namespace ds
