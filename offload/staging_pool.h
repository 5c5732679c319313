// StagingPool: a few buffers of one size that transfers between a file, the host and a device begin
// and end in. There are never more of them, so that what a rank pins and holds is known before the
// first step; who needs one waits until another gives its own back.
//
// Memory of a device's runtime (make_pinned_memory) is pinned already. Other memory is locked
// (mlock), so that the kernel does not swap out what is being transferred; it is not where that is
// refused and nobody asked for it, which the log says in one line.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/host_block.h"
#include "core/status/error.h"

namespace ds {

// Nobody gave a buffer back in time.
class StagingTimeout : public IoError {
 public:
  explicit StagingTimeout(const std::string& m) : IoError(m) {}
};

enum class Pinning : uint8_t {
  kNone,
  kIfPossible,
  kRequired,  // the configuration says pin_memory
};

// What the buffers are made of.
enum class StagingMemory : uint8_t {
  kPinned,   // by a device's runtime
  kPageable  // of the host, and locked where StagingOptions::pinning asks for it
};

struct StagingOptions {
  int buffers = 2;
  int64_t buffer_bytes = 0;  // of each; rounded up to kUncachedAlignment
  Pinning pinning = Pinning::kIfPossible;
  int64_t timeout_ms = 30'000;  // longest that take() waits
  MemoryTag tag = MemoryTag::kScratch;
};

// Thread-safe. Must outlive its leases, and whatever may still move bytes of a lease that was
// abandoned.
class StagingPool {
 public:
  class Lease;

  // `memory` must outlive the pool. Null: the heap, which is pageable. ConfigError naming
  // RLIMIT_MEMLOCK where pinning is required and refused.
  explicit StagingPool(const StagingOptions& options, MemoryResource* memory = nullptr,
                       StagingMemory kind = StagingMemory::kPinned);
  StagingPool(const StagingPool&) = delete;  // leases point into it
  StagingPool& operator=(const StagingPool&) = delete;
  ~StagingPool();

  // The first `bytes` of a buffer, aligned to kUncachedAlignment; contents undefined. `holder` is
  // what others are told who wait in vain: "optimizer part 3". Waits for one; StagingTimeout says
  // who holds them all, and for how long.
  Lease take(int64_t bytes, std::string_view holder);

  int buffers() const { return options_.buffers; }
  int64_t buffer_bytes() const { return options_.buffer_bytes; }
  bool is_pinned() const { return is_pinned_; }
  // All of it, for AsyncIo::register_memory.
  std::span<std::byte> memory() const { return memory_; }

 private:
  struct Buffer {
    std::string holder;  // empty: it is free
    std::chrono::steady_clock::time_point since;
    bool is_lost = false;
  };
  void pin();
  void give_back(int buffer) noexcept;
  void lose(int buffer) noexcept;
  int free_buffer() const;
  std::string holders() const;

  StagingOptions options_;
  HostBlock block_;
  std::span<std::byte> memory_;
  bool is_pinned_ = false;
  bool is_locked_ = false;  // by us
  std::mutex buffers_mutex_;
  std::condition_variable given_back_;
  std::vector<Buffer> buffers_;
};

// One buffer for as long as it lives.
class StagingPool::Lease {
 public:
  Lease() = default;
  ~Lease() { give_back(); }
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;  // gives its buffer back once
  Lease& operator=(const Lease&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  bool holds() const { return pool_ != nullptr; }
  void give_back() noexcept;
  // The buffer is lost to the pool: a transfer that nobody can stop may still write to it.
  void abandon() noexcept;

 private:
  friend class StagingPool;
  Lease(StagingPool& pool, int buffer, std::span<std::byte> bytes)
      : pool_(&pool), buffer_(buffer), bytes_(bytes) {}

  StagingPool* pool_ = nullptr;
  int buffer_ = 0;
  std::span<std::byte> bytes_;
};

}  // namespace ds
