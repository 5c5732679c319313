// A memory resource over one block that somebody else owns, and how memory of devices is refused:
// with what was wanted, what there is, and what to do.
#pragma once

#include <mutex>
#include <string>

#include "core/memory/resource.h"
#include "core/memory/slab.h"

namespace ds {

// OutOfMemory: the device, or the host, has no block of `wanted` bytes.
[[noreturn]] void refuse_block(std::string_view name, size_t wanted, size_t free, size_t total);
// OutOfMemory: the slab has no run of `bytes`.
[[noreturn]] void refuse_allocation(std::string_view name, size_t bytes, MemoryTag tag,
                                    const Slab& slab);

// Thread-safe. What is given back may be handed out at once (core/cuda/memory.h).
class SlabMemory final : public MemoryResource {
 public:
  // block: `bytes` bytes, aligned to kSlabAlignment, that nothing here reads or writes; `name` is
  // for messages.
  SlabMemory(std::string name, void* block, size_t bytes)
      : name_(std::move(name)), block_(static_cast<std::byte*>(block)), slab_(bytes) {}

  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;

 private:
  const std::string name_;
  std::byte* const block_;
  std::mutex slab_mutex_;
  Slab slab_;
};

}  // namespace ds
