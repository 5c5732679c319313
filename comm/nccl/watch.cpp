#include "comm/nccl/watch.h"

#include "core/tasks/task_limits.h"

namespace ds::detail {

NcclWatch::NcclWatch(std::chrono::milliseconds every) : every_(every) {
  thread_ = start_thread("watching NCCL", [this] { run(); });
}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(ends_mutex_);
    stops_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void NcclWatch::add(NcclEnd& end) {
  const std::lock_guard lock(ends_mutex_);
  ends_.push_back(&end);
}

void NcclWatch::remove(const NcclEnd& end) {
  const std::lock_guard lock(ends_mutex_);
  std::erase(ends_, &end);
}

void NcclWatch::run() {
  std::unique_lock lock(ends_mutex_);
  while (!stopped_.wait_for(lock, every_, [this] { return stops_; })) {
    for (NcclEnd* const end : ends_) end->look(std::chrono::steady_clock::now());
  }
}

}  // namespace ds::detail
