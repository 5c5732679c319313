// Memory resources: where bytes come from. A resource is handed to a Stream at construction;
// nothing looks one up globally. Features (peak tracking, limits, replay) are adaptors in
// adaptors.h and replay_arena.h. Resources are confined to the thread of their stream unless
// they say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/memory/slab.h"

namespace ds {

// What the bytes are for; the memory plan and the measured report are broken down by it.
enum class MemoryTag : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kBuckets,
  kScratch
};
inline constexpr int kMemoryTags = 6;
std::string_view name_of(MemoryTag tag);  // "parameters", "gradients", ...

// A tier is where bytes lie. On a CPU what the device has is the host's memory, and counts as that.
enum class Tier : uint8_t { kDevice, kHost, kPinned, kNvme };
inline constexpr int kTiers = 4;
std::string_view name_of(Tier tier);  // "device", "host", ...

inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kMemoryAlignment = 64;  // bytes: a cache line and an AVX-512 register

class MemoryResource {
 public:
  virtual ~MemoryResource() = default;
  // At least `bytes` bytes, aligned to kMemoryAlignment; contents undefined. Throws OutOfMemory.
  virtual void* allocate(size_t bytes, MemoryTag tag) = 0;
  // `bytes` and `tag` as given to allocate.
  virtual void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept = 0;
};

// The heap; large blocks are page-aligned and offered to transparent huge pages. Thread-safe.
class HostMemory final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;
};

// Hands out addresses without bytes behind them, for tensors on the meta device: the places that
// they would have in one block of a device, so that it is known how large that has to be.
class MetaMemory final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;
  // Returns the bytes of the smallest block (core/memory/slab.h) that had room for all of it.
  size_t block_bytes() const { return block_bytes_; }

 private:
  Slab slab_{size_t{1} << 45};
  size_t block_bytes_ = 0;
};

}  // namespace ds
