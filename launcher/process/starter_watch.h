// Notices that the process which started us is gone, without a word: mpirun killed with -9 leaves
// what it started on its own host behind. Sends this process SIGTERM then, and SIGKILL a while
// later.
#pragma once

#include <optional>
#include <thread>

#include "core/files/file.h"
#include "core/tasks/process_end.h"

namespace ds {

class StarterWatch {
 public:
  StarterWatch();                              // watches the parent; throws IoError
  StarterWatch(const StarterWatch&) = delete;  // the thread holds `this`
  StarterWatch& operator=(const StarterWatch&) = delete;
  ~StarterWatch();

 private:
  void watch() const;

  std::optional<ProcessEnd> parent_;
  Fd end_;
  std::thread thread_;  // last: uses everything above
};

}  // namespace ds
