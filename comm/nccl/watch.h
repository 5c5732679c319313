// NcclWatch: the thread that looks after the groups of a world, for as long as it lives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/nccl/end.h"

namespace ds::detail {

class NcclWatch {
 public:
  explicit NcclWatch(std::chrono::milliseconds every);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;  // the thread knows its address
  NcclWatch& operator=(const NcclWatch&) = delete;

  // Until it is removed, which waits for a look at it to be over.
  void add(NcclEnd& end);
  void remove(const NcclEnd& end);

 private:
  void run();

  const std::chrono::milliseconds every_;
  std::mutex ends_mutex_;  // guards everything up to the thread
  std::condition_variable stopped_;
  bool stops_ = false;
  std::vector<NcclEnd*> ends_;
  std::thread thread_;
};

}  // namespace ds::detail
