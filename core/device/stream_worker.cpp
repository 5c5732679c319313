#include "core/device/stream_worker.h"

#include <optional>
#include <utility>

#include "core/tasks/task_limits.h"

namespace ds {

StreamWorker::StreamWorker(const Stream& stream, std::string_view purpose, Duties duties)
    : duties_(std::move(duties)) {
  if (!stream.device().is_meta()) thread_ = start_thread(purpose, [this] { run(); });
}

StreamWorker::~StreamWorker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    given_.clear();
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamWorker::give(int item) {
  if (!thread_.joinable()) return duties_.work(item);
  {
    const std::lock_guard lock(mutex_);
    given_.push_back(item);
  }
  changed_.notify_all();
}

void StreamWorker::drop() {
  const std::lock_guard lock(mutex_);
  given_.clear();
}

std::exception_ptr StreamWorker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return given_.empty() && !is_working_; });
  return std::exchange(error_, nullptr);
}

void StreamWorker::run() {
  bool finishes = false;  // something may be under way of what was worked on
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || finishes || !given_.empty(); });
    if (ends_) return;
    const bool failed = error_ != nullptr;
    std::optional<int> item;
    if (!given_.empty()) {
      item = given_.front();
      given_.pop_front();
      is_working_ = true;
    }
    lock.unlock();
    std::exception_ptr error;
    try {
      if (item && !failed) duties_.work(*item);
      // Nothing that the items still given hold is kept from others.
      if (item && failed && duties_.give_up) duties_.give_up(*item);
      finishes = item ? duties_.finish_one != nullptr
                      : duties_.finish_one != nullptr && duties_.finish_one();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    is_working_ = false;
    if (error != nullptr && error_ == nullptr) error_ = error;
    changed_.notify_all();
  }
}

}  // namespace ds
