#include "offload/async_io/engines/transfer_pool.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"

namespace ds {

TransferPool::TransferPool(std::string name, int queue_depth, int threads, Transfer transfer)
    : name_(std::move(name)), queue_depth_(queue_depth), transfer_(std::move(transfer)) {
  DS_CHECK(queue_depth >= 1 && threads >= 1,
           "{}: queue depth {} and {} threads, expected 1 at least", name_, queue_depth, threads);
  try {
    for (int i = 0; i < std::min(threads, queue_depth); ++i) {
      threads_.push_back(start_thread(name_, [this] { work(); }));
    }
  } catch (const Error&) {
    close();
    throw;
  }
}

TransferPool::~TransferPool() { close(); }

void TransferPool::close() {
  {
    const std::scoped_lock lock(queue_mutex_);
    closing_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int TransferPool::submit(std::span<const IoBlock> blocks) {
  const std::scoped_lock lock(queue_mutex_);
  const int taken = std::min(static_cast<int>(blocks.size()), queue_depth_ - under_way_);
  for (int i = 0; i < taken; ++i) {
    waiting_.push_back(blocks[static_cast<size_t>(i)]);
    begun_.notify_one();
  }
  under_way_ += taken;
  return taken;
}

int TransferPool::reap(std::span<IoCompletion> into, int least, Deadline deadline) {
  std::unique_lock lock(queue_mutex_);
  wanted_ = std::min({least, under_way_, static_cast<int>(into.size())});
  const auto enough = [&] { return static_cast<int>(completed_.size()) >= wanted_; };
  done_.wait_until(lock, deadline, enough);
  const int count = static_cast<int>(std::min(into.size(), completed_.size()));
  std::copy_n(completed_.begin(), count, into.begin());
  completed_.erase(completed_.begin(), completed_.begin() + count);
  under_way_ -= count;
  wanted_ = 0;
  return count;
}

void TransferPool::work() {
  std::unique_lock lock(queue_mutex_);
  while (true) {
    begun_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const IoBlock block = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    const int64_t result = transfer_(block);
    lock.lock();
    completed_.push_back({block.id, result});
    if (static_cast<int>(completed_.size()) >= wanted_) done_.notify_one();
  }
}

}  // namespace ds
