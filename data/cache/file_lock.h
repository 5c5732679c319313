// A lock that processes of a machine, and of machines that share the folder, hold on a file of its
// own (flock): it is gone with its holder, however that ends.
#pragma once

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

 private:
  std::string path_;
  Fd fd_;
};

}  // namespace ds
