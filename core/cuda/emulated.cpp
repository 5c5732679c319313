#include "core/cuda/emulated.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "core/cuda/memory.h"
#include "core/cuda/queue.h"
#include "core/error.h"
#include "core/index.h"
#include "core/memory/poison.h"

namespace ds::emulated {
namespace {

std::atomic<int64_t> waiting_work = 0;  // of all queues

// First fit in one mapping, which is accessible only while queues work. What is given back is
// handed out again when no queue has work left, which may be for it.
class DeviceMemory final : public MemoryResource {
 public:
  DeviceMemory() {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, kDeviceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED) throw OutOfMemory("emulated device: its memory cannot be mapped");
    poison(base_, kDeviceBytes);
  }

  void* allocate(size_t bytes, MemoryTag tag) override {
    const std::lock_guard lock(blocks_mutex_);
    if (waiting_work == 0) forget_given_back();
    size_t at = 0;
    for (const auto& [begin, size] : blocks_) {
      if (begin - at >= rounded(bytes)) break;
      at = begin + rounded(size);
    }
    if (at + rounded(bytes) > kDeviceBytes) {
      throw OutOfMemory(
          fmt::format("emulated device: no {} bytes are left for {}", bytes, name_of(tag)));
    }
    blocks_[at] = bytes;
    unpoison(base_ + at, rounded(bytes));
    open();
    std::memset(base_ + at + bytes, kEdgeByte, rounded(bytes) - bytes);
    close();
    poison(base_ + at + bytes, rounded(bytes) - bytes);
    return base_ + at;
  }

  void deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept override {
    const std::lock_guard lock(blocks_mutex_);
    given_back_.push_back(to_size(static_cast<std::byte*>(pointer) - base_));
  }

  bool has(const void* pointer) const {
    const auto* at = static_cast<const std::byte*>(pointer);
    return at >= base_ && at < base_ + kDeviceBytes;
  }

  std::vector<std::span<std::byte>> allocated() const {
    const std::lock_guard lock(blocks_mutex_);
    std::vector<std::span<std::byte>> all;
    for (const auto& [begin, size] : blocks_) all.emplace_back(base_ + begin, size);
    return all;
  }

  void check_edges(std::string_view culprit) const {
    const std::lock_guard lock(blocks_mutex_);
    for (const auto& [begin, size] : blocks_) {
      const std::byte* const edge = base_ + begin + size;
      const size_t bytes = rounded(size) - size;
      unpoison(edge, bytes);
      DS_CHECK(
          std::all_of(edge, edge + bytes, [](std::byte b) { return b == std::byte{kEdgeByte}; }),
          "{}: it wrote behind the end of a block of {} bytes", culprit, size);
      poison(edge, bytes);
    }
  }

  void open() {
    const std::lock_guard lock(depth_mutex_);
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard lock(depth_mutex_);
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  static constexpr unsigned char kEdgeByte = 0xcb;
  // A byte past the end of a block is nobody's.
  static size_t rounded(size_t bytes) {
    constexpr size_t kAlignment = 256;  // that of cudaMalloc
    return (bytes / kAlignment + 1) * kAlignment;
  }
  void forget_given_back() {
    for (const size_t at : given_back_) {
      const auto block = blocks_.find(at);
      poison(base_ + at, block->second);
      blocks_.erase(block);
    }
    given_back_.clear();
  }
  void protect(int protection) const {
    DS_CHECK(mprotect(base_, kDeviceBytes, protection) == 0, "emulated device: mprotect failed");
  }

  std::byte* base_ = nullptr;
  mutable std::mutex blocks_mutex_;
  std::map<size_t, size_t> blocks_;  // from where in the mapping to how many bytes
  std::vector<size_t> given_back_;   // of blocks_
  std::mutex depth_mutex_;
  int depth_ = 0;
};

DeviceMemory& memory() {
  static auto* const memory = new DeviceMemory;  // outlives every tensor
  return *memory;
}

class PinnedMemory final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override {
    const std::lock_guard lock(blocks_mutex_);
    void* const pointer = host_.allocate(bytes, tag);
    blocks_[static_cast<const std::byte*>(pointer)] = bytes;
    return pointer;
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    const std::lock_guard lock(blocks_mutex_);
    blocks_.erase(static_cast<const std::byte*>(pointer));
    host_.deallocate(pointer, bytes, tag);
  }
  bool has(const void* pointer) const {
    const std::lock_guard lock(blocks_mutex_);
    const auto* at = static_cast<const std::byte*>(pointer);
    const auto after = blocks_.upper_bound(at);
    return after != blocks_.begin() && at < std::prev(after)->first + std::prev(after)->second;
  }

 private:
  HostMemory host_;
  mutable std::mutex blocks_mutex_;
  std::map<const std::byte*, size_t> blocks_;
};

PinnedMemory& pinned() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

// Is there as long as somebody has an event of it.
class Work {
 public:
  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    ++given_;
    ++waiting_work;
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
    ~Done() { --waiting_work; }
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

class Open {
 public:
  Open() { memory().open(); }
  ~Open() { memory().close(); }
  Open(const Open&) = delete;  // closes what it opened, exactly once
  Open& operator=(const Open&) = delete;
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
    const auto is_late = [](const void* at) { return memory().has(at) || pinned().has(at); };
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

std::vector<std::span<std::byte>> allocated() { return memory().allocated(); }
void check_edges(std::string_view culprit) { memory().check_edges(culprit); }

}  // namespace ds::emulated

namespace ds {
namespace {

// What all have in common is known by a handle to it.
class Handle final : public MemoryResource {
 public:
  explicit Handle(MemoryResource& memory) : memory_(memory) {}
  void* allocate(size_t bytes, MemoryTag tag) override { return memory_.allocate(bytes, tag); }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    memory_.deallocate(pointer, bytes, tag);
  }

 private:
  MemoryResource& memory_;
};

}  // namespace

std::unique_ptr<DeviceQueue> make_device_queue(Device device) {
  constexpr int kDevices = 8;
  if (device.index >= kDevices) {
    throw Unsupported(fmt::format("{}: {} devices are emulated", device.to_string(), kDevices));
  }
  return std::make_unique<emulated::Queue>();
}
std::unique_ptr<MemoryResource> make_device_memory(Device /*device*/) {
  return std::make_unique<Handle>(emulated::memory());
}
std::unique_ptr<MemoryResource> make_pinned_memory() {
  return std::make_unique<Handle>(emulated::pinned());
}

}  // namespace ds
