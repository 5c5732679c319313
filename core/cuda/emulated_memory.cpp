#include "core/cuda/emulated_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/cuda/memory.h"
#include "core/cuda/slab_memory.h"
#include "core/memory/poison.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::emulated {
namespace {

std::atomic<int64_t> waiting_work = 0;  // of all queues
constexpr int kNobody = -1;
constinit thread_local int at_work = kNobody;  // the device whose work this thread does

// The places of all blocks, in one mapping that is accessible only while queues work. It has room
// for more than is promised: behind each block lies an edge, and what is given back is handed out
// again when no queue has work left, which may be for it.
class Mapping {
 public:
  Mapping() {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED) throw OutOfMemory("emulated device: its memory cannot be mapped");
    poison(base_, kBytes);
  }

  // A resource's part of kDeviceBytes; nothing lies anywhere yet.
  void promise(std::string_view name, size_t bytes) {
    const std::lock_guard lock(blocks_mutex_);
    if (bytes > kDeviceBytes - promised_) {
      refuse_block(name, bytes, kDeviceBytes - promised_, kDeviceBytes);
    }
    promised_ += bytes;
  }
  void end_promise(size_t bytes) {
    const std::lock_guard lock(blocks_mutex_);
    promised_ -= bytes;
  }

  std::byte* take(int device, size_t bytes, MemoryTag tag) {
    const std::lock_guard lock(blocks_mutex_);
    if (waiting_work == 0) forget_given_back();
    const std::optional<size_t> at = blocks_.take(bytes + kLeastEdge);
    if (!at) refuse_allocation("emulated device's mapping", bytes, tag, blocks_);
    device_of_[*at] = device;
    unpoison(base_ + *at, bytes);
    const std::span<std::byte> edge = edge_of(*at, bytes);
    unpoison(edge.data(), edge.size());
    open();
    std::ranges::fill(edge, kEdgeByte);
    close();
    poison(edge.data(), edge.size());
    return base_ + *at;
  }
  void give_back(const std::byte* block) {
    const std::lock_guard lock(blocks_mutex_);
    given_back_.push_back(to_size(block - base_));
  }

  bool has(const void* pointer) const {
    const auto* at = static_cast<const std::byte*>(pointer);
    return at >= base_ && at < base_ + kBytes;
  }

  std::vector<std::span<std::byte>> allocated() const {
    const std::lock_guard lock(blocks_mutex_);
    std::vector<std::span<std::byte>> all;
    for (const auto& [begin, size] : blocks_.taken()) {
      if (device_of_.at(begin) != at_work) continue;
      all.emplace_back(base_ + begin, size - kLeastEdge);
    }
    return all;
  }

  void check_edges(std::string_view culprit) const {
    const std::lock_guard lock(blocks_mutex_);
    for (const auto& [begin, size] : blocks_.taken()) {
      const size_t bytes = size - kLeastEdge;
      const std::span<std::byte> edge = edge_of(begin, bytes);
      unpoison(edge.data(), edge.size());
      DS_CHECK(std::ranges::all_of(edge, [](std::byte b) { return b == kEdgeByte; }),
               "{}: it wrote behind the end of a block of {} bytes", culprit, bytes);
      poison(edge.data(), edge.size());
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
  static constexpr size_t kBytes = 2 * kDeviceBytes;
  static constexpr std::byte kEdgeByte{0xcb};
  static constexpr size_t kLeastEdge = 1;  // a byte past the end of a block is nobody's

  // Up to where the next block may begin.
  std::span<std::byte> edge_of(size_t begin, size_t bytes) const {
    const size_t end = slab_bytes(bytes + kLeastEdge);
    return {base_ + begin + bytes, end - bytes};
  }
  void forget_given_back() {
    for (const size_t at : given_back_) {
      poison(base_ + at, blocks_.taken().at(at));
      blocks_.give_back(at);
    }
    given_back_.clear();
  }
  void protect(int protection) const {
    DS_CHECK(mprotect(base_, kBytes, protection) == 0, "emulated device: mprotect failed");
  }

  std::byte* base_ = nullptr;
  mutable std::mutex blocks_mutex_;
  Slab blocks_{kBytes};
  std::map<size_t, int> device_of_;  // by where a block begins, for all that were ever taken
  std::vector<size_t> given_back_;   // of blocks_
  size_t promised_ = 0;
  std::mutex depth_mutex_;
  int depth_ = 0;
};

Mapping& mapping() {
  static auto* const mapping = new Mapping;  // outlives every tensor
  return *mapping;
}

// Refuses what a GPU's slab would: it keeps the books of one, and the bytes lie in the mapping.
class DeviceMemory final : public MemoryResource {
 public:
  DeviceMemory(Device device, size_t bytes)
      : device_(device.index),
        name_(fmt::format("memory of {}", device.to_string())),
        bytes_(bytes),
        slab_(bytes) {
    mapping().promise(name_, bytes_);
  }
  ~DeviceMemory() override { mapping().end_promise(bytes_); }
  DeviceMemory(const DeviceMemory&) = delete;  // ends its promise, exactly once
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(size_t bytes, MemoryTag tag) override {
    const std::lock_guard lock(slab_mutex_);
    const std::optional<size_t> offset = slab_.take(bytes);
    if (!offset) refuse_allocation(name_, bytes, tag, slab_);
    std::byte* const block = mapping().take(device_, bytes, tag);
    offsets_[block] = *offset;
    return block;
  }
  void deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept override {
    const std::lock_guard lock(slab_mutex_);
    const auto found = offsets_.find(static_cast<std::byte*>(pointer));
    slab_.give_back(found->second);
    offsets_.erase(found);
    mapping().give_back(static_cast<std::byte*>(pointer));
  }

 private:
  const int device_;
  const std::string name_;
  const size_t bytes_;
  std::mutex slab_mutex_;
  Slab slab_;
  std::map<const std::byte*, size_t> offsets_;  // of blocks in the mapping, in the slab
};

// Blocks of host memory that count as pinned.
class PinnedBlocks {
 public:
  std::byte* make(size_t bytes) {
    const size_t rounded = slab_bytes(bytes + 1);
    // No machine has more, and AddressSanitizer ends the program of who asks for that.
    constexpr size_t kMost = size_t{1} << 39;
    auto* const block = rounded > kMost
                            ? nullptr
                            : static_cast<std::byte*>(std::aligned_alloc(kSlabAlignment, rounded));
    if (block == nullptr) {
      throw OutOfMemory(fmt::format("pinned memory: {} bytes refused by the system", bytes));
    }
    poison(block, rounded);
    const std::lock_guard lock(blocks_mutex_);
    blocks_[block] = rounded;
    return block;
  }
  void end(std::byte* block) {
    const std::lock_guard lock(blocks_mutex_);
    unpoison(block, blocks_.at(block));
    blocks_.erase(block);
    std::free(block);
  }
  bool has(const void* pointer) const {
    const std::lock_guard lock(blocks_mutex_);
    const auto* at = static_cast<const std::byte*>(pointer);
    const auto after = blocks_.upper_bound(at);
    return after != blocks_.begin() && at < std::prev(after)->first + std::prev(after)->second;
  }

 private:
  mutable std::mutex blocks_mutex_;
  std::map<const std::byte*, size_t> blocks_;  // from where, how many bytes
};

PinnedBlocks& pinned_blocks() {
  static auto* const blocks = new PinnedBlocks;
  return *blocks;
}

class PinnedMemory final : public MemoryResource {
 public:
  explicit PinnedMemory(size_t bytes)
      : block_(pinned_blocks().make(bytes)), slab_("pinned memory", block_, bytes) {}
  ~PinnedMemory() override { pinned_blocks().end(block_); }
  PinnedMemory(const PinnedMemory&) = delete;  // owns its block
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void* allocate(size_t bytes, MemoryTag tag) override {
    void* const pointer = slab_.allocate(bytes, tag);
    unpoison(pointer, bytes);
    return pointer;
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    poison(pointer, bytes);
    slab_.deallocate(pointer, bytes, tag);
  }

 private:
  std::byte* const block_;
  SlabMemory slab_;
};

}  // namespace

void count_waiting_work(int64_t more) { waiting_work += more; }
bool is_late(const void* at) { return mapping().has(at) || pinned_blocks().has(at); }
Open::Open(Device device) : outer_(std::exchange(at_work, device.index)) { mapping().open(); }
Open::~Open() {
  mapping().close();
  at_work = outer_;
}

Contents contents() {
  Contents all;
  for (const std::span<std::byte> block : mapping().allocated()) {
    all.emplace_back(block.begin(), block.end());
  }
  return all;
}
void restore(const Contents& before) {
  const std::vector<std::span<std::byte>> blocks = mapping().allocated();
  for (size_t i = 0; i < blocks.size(); ++i) std::ranges::copy(before[i], blocks[i].begin());
}
void check_edges(std::string_view culprit) { mapping().check_edges(culprit); }

}  // namespace ds::emulated

namespace ds {

std::unique_ptr<MemoryResource> make_device_memory(Device device, size_t bytes) {
  return std::make_unique<emulated::DeviceMemory>(device, slab_bytes(bytes));
}
std::unique_ptr<MemoryResource> make_pinned_memory(size_t bytes) {
  return std::make_unique<emulated::PinnedMemory>(slab_bytes(bytes));
}

}  // namespace ds
