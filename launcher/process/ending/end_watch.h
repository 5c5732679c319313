// The end of a process that does not come to it by itself: a thread that watches for signals which
// nobody takes and for work that takes longer than it may, says so and ends the process, with all
// that it has started. Construct after SIGINT and SIGTERM are blocked, before other threads.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/files/file.h"
#include "launcher/decide/ending/patience.h"

namespace ds {

class EndWatch {
 public:
  EndWatch();  // throws Error(kClusterUnusable) where no thread may be started
  EndWatch(const EndWatch&) = delete;  // its thread holds `this`
  EndWatch& operator=(const EndWatch&) = delete;
  ~EndWatch();

  // This segment of /dev/shm goes with the process, so that nothing is left behind. Empty: none.
  void owns_shared_memory(const std::string& name);

  // It is decided how the process ends: so it does, whatever comes of the rest.
  void ends_with(int exit_code);

  // As long as it is there, the work is under way. One at a time.
  class Work {
   public:
    Work(EndWatch& watch, BoundedWork work) : watch_(watch) { watch_.begin(std::move(work)); }
    Work(const Work&) = delete;  // the end of the work
    Work& operator=(const Work&) = delete;
    ~Work() { watch_.end(); }

   private:
    EndWatch& watch_;
  };

 private:
  void begin(BoundedWork work);
  void end();
  void watch();
  [[noreturn]] void end_process(const Patience::Verdict& verdict);

  const Fd stop_;
  std::mutex mutex_;  // guards everything below but the thread
  std::optional<BoundedWork> work_;
  int number_ = 0;  // of the work
  std::string shared_memory_;
  std::optional<int> exit_code_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ds
