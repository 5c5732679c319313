#include "core/cuda/slab_memory.h"

#include "core/status/error.h"

namespace ds {

void refuse_block(std::string_view name, size_t wanted, size_t free, size_t total) {
  throw OutOfMemory(
      fmt::format("{}: {} bytes are wanted in one block, {} of {} bytes are free; end what else "
                  "uses it, or plan for less: a smaller micro-batch, a higher ZeRO stage, more "
                  "ranks",
                  name, wanted, free, total));
}

void refuse_allocation(std::string_view name, size_t bytes, MemoryTag tag, const Slab& slab) {
  throw OutOfMemory(fmt::format(
      "{}: {} bytes for {} are wanted, {} of {} bytes are free, in {} runs of which the longest "
      "has {}",
      name, bytes, name_of(tag), slab.bytes_free(), slab.bytes(), slab.runs(), slab.longest_run()));
}

void* SlabMemory::allocate(size_t bytes, MemoryTag tag) {
  const std::lock_guard lock(slab_mutex_);
  const std::optional<size_t> offset = slab_.take(bytes);
  if (!offset) refuse_allocation(name_, bytes, tag, slab_);
  return block_ + *offset;
}

void SlabMemory::deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept {
  const std::lock_guard lock(slab_mutex_);
  slab_.give_back(static_cast<size_t>(static_cast<std::byte*>(pointer) - block_));
}

}  // namespace ds
