#include "zero/peers/comm_thread.h"

#include <utility>

namespace ds {

CommThread::CommThread(Stream& own) : own_(own), thread_([this] { run(); }) {}

CommThread::~CommThread() {
  abandon();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CommThread::give(Work work, std::string_view label) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    waiting_.push_back({std::move(work), label});
  }
  ++given_;
  changed_.notify_all();
}

void CommThread::wait(int64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number || error_ != nullptr; });
  if (done_ < number) std::rethrow_exception(error_);
}

void CommThread::idle() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == given_ || error_ != nullptr; });
}

void CommThread::abandon() noexcept {
  std::unique_lock lock(mutex_);
  done_ += static_cast<int64_t>(waiting_.size());
  waiting_.clear();
  changed_.wait(lock, [&] { return !is_working_; });
}

void CommThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || (!waiting_.empty() && !error_); });
    if (ends_) return;
    const Given given = std::move(waiting_.front());
    waiting_.pop_front();
    is_working_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      const Span span(own_, given.label);
      given.work(own_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    is_working_ = false;
    if (error) {
      error_ = error;
    } else {
      ++done_;
    }
    changed_.notify_all();
  }
}

}  // namespace ds
