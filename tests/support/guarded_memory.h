// Memory as a GPU's is to the host: closed, it faults where anybody touches it who is not a kernel,
// a copy or a collective. A rank's heap and its memory for collectives are one GuardedMemory, and
// its stream and its communicator open it while they work.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/memory/access_gate.h"
#include "core/memory/resource.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::testing {

// All blocks lie in one mapping, so that one call protects them. Open from the beginning.
// Thread-safe.
class GuardedMemory final : public MemoryResource, public AccessGate {
 public:
  explicit GuardedMemory(size_t bytes = size_t{64} << 20) : bytes_(bytes) {
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw OutOfMemory(fmt::format("guarded memory: {} bytes", bytes));
    free_[0] = bytes;
  }
  ~GuardedMemory() override { munmap(base_, bytes_); }
  GuardedMemory(const GuardedMemory&) = delete;  // owns a mapping
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void* allocate(size_t bytes, MemoryTag /*tag*/) override {
    const std::lock_guard lock(blocks_mutex_);
    const size_t wanted = rounded(bytes);
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      const auto [at, size] = *block;
      if (size < wanted) continue;
      free_.erase(block);
      if (size > wanted) free_[at + wanted] = size - wanted;
      return static_cast<std::byte*>(base_) + at;
    }
    throw OutOfMemory(fmt::format("guarded memory: no {} of {} bytes are left", bytes, bytes_));
  }

  void deallocate(void* pointer, size_t bytes, MemoryTag /*tag*/) noexcept override {
    const std::lock_guard lock(blocks_mutex_);
    const auto at = to_size(static_cast<std::byte*>(pointer) - static_cast<std::byte*>(base_));
    auto block = free_.emplace(at, rounded(bytes)).first;
    if (const auto next = std::next(block); next != free_.end() && next->first == end_of(block)) {
      block->second += next->second;
      free_.erase(next);
    }
    if (block == free_.begin()) return;
    if (const auto before = std::prev(block); end_of(before) == block->first) {
      before->second += block->second;
      free_.erase(block);
    }
  }

  void open() noexcept override {
    const std::lock_guard lock(depth_mutex_);
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() noexcept override {
    const std::lock_guard lock(depth_mutex_);
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  using Blocks = std::map<size_t, size_t>;  // from where in the mapping to how many bytes

  // Different blocks have different addresses, those of 0 bytes too.
  static size_t rounded(size_t bytes) { return (bytes / kMemoryAlignment + 1) * kMemoryAlignment; }
  static size_t end_of(Blocks::const_iterator block) { return block->first + block->second; }
  // A device whose memory cannot be opened has no way to say so: its calls are noexcept.
  void protect(int protection) const noexcept {
    if (mprotect(base_, bytes_, protection) == 0) return;
    std::perror("guarded memory: mprotect");
    std::abort();
  }

  const size_t bytes_;
  void* base_;
  std::mutex blocks_mutex_;
  Blocks free_;
  std::mutex depth_mutex_;
  int depth_ = 1;
};

// For its lifetime the host has no access of its own.
class ClosedToHost {
 public:
  explicit ClosedToHost(AccessGate& gate) : gate_(gate) { gate_.close(); }
  ~ClosedToHost() { gate_.open(); }
  ClosedToHost(const ClosedToHost&) = delete;  // opens what it closed, exactly once
  ClosedToHost& operator=(const ClosedToHost&) = delete;

 private:
  AccessGate& gate_;
};

}  // namespace ds::testing
