#include "core/cuda/emulated.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "core/cuda/emulated_memory.h"
#include "core/cuda/queue.h"
#include "core/error.h"

namespace ds::emulated {
namespace {

// Is there as long as somebody has an event of it.
class Work {
 public:
  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    ++given_;
    count_waiting_work(1);
  }
  int64_t given() const {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  int64_t done() const {
    const std::lock_guard lock(mutex_);
    return given_ - static_cast<int64_t>(waiting_.size());
  }
  void run_until(int64_t position) {
    const std::lock_guard lock(mutex_);
    while (done() < position) {
      const std::function<void()> next = std::move(waiting_.front());
      waiting_.pop_front();
      const Done when_done;
      next();
    }
  }

 private:
  struct Done {
    ~Done() { count_waiting_work(-1); }
  };
  mutable std::recursive_mutex mutex_;  // a kernel may not wait for its own queue, but may ask
  std::deque<std::function<void()>> waiting_;
  int64_t given_ = 0;
};

class Event final : public QueueEvent {
 public:
  explicit Event(std::shared_ptr<Work> work) : work_(std::move(work)), position_(work_->given()) {}
  bool ready() override { return work_->done() >= position_; }
  void wait_on_host() override { work_->run_until(position_); }

 private:
  const std::shared_ptr<Work> work_;
  const int64_t position_;
};

}  // namespace

class Queue final : public DeviceQueue {
 public:
  ~Queue() override {
    while (work_->done() < work_->given()) {
      try {
        work_->run_until(work_->given());
      } catch (...) {  // nobody is left to hear of it; what comes after it is done all the same
      }
    }
  }

  void enqueue(std::function<void()> work) {
    work_->give([work = std::move(work)] {
      const Open open;
      work();
    });
  }

  std::shared_ptr<QueueEvent> mark() override { return std::make_shared<Event>(work_); }

  void wait(const std::shared_ptr<QueueEvent>& event) override {
    enqueue([event] { event->wait_on_host(); });
  }

  void copy(const void* from, void* to, size_t bytes) override {
    if (is_late(from)) {
      enqueue([=] { std::memcpy(to, from, bytes); });
    } else {
      const auto* const begin = static_cast<const std::byte*>(from);
      enqueue([to, staged = std::vector(begin, begin + bytes)] {
        std::memcpy(to, staged.data(), staged.size());
      });
    }
    if (!is_late(to)) work_->run_until(work_->given());
  }

  void fill_bytes(void* to, int value, size_t bytes) override {
    enqueue([=] { std::memset(to, value, bytes); });
  }

  void* native() const override { return nullptr; }

 private:
  const std::shared_ptr<Work> work_ = std::make_shared<Work>();
};

void enqueue(const Stream& stream, std::function<void()> work) {
  dynamic_cast<Queue&>(stream.queue()).enqueue(std::move(work));
}

}  // namespace ds::emulated

namespace ds {
std::unique_ptr<DeviceQueue> make_device_queue(Device device) {
  constexpr int kDevices = 8;
  if (device.index >= kDevices) {
    throw Unsupported(fmt::format("{}: {} devices are emulated", device.to_string(), kDevices));
  }
  return std::make_unique<emulated::Queue>();
}

}  // namespace ds
