#include "core/memory/resource.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/memory/rounding.h"
#include "core/status/error.h"

namespace ds {

std::string_view name_of(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return "device";
    case Tier::kHost:
      return "host";
    case Tier::kPinned:
      return "pinned";
    case Tier::kNvme:
      return "nvme";
  }
  return "?";
}

std::string_view name_of(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::kParameters:
      return "parameters";
    case MemoryTag::kGradients:
      return "gradients";
    case MemoryTag::kOptimizer:
      return "optimizer";
    case MemoryTag::kActivations:
      return "activations";
    case MemoryTag::kBuckets:
      return "buckets";
    case MemoryTag::kScratch:
      return "scratch";
  }
  throw InternalError("name_of: unknown memory tag");
}

void* HostMemory::allocate(size_t bytes, MemoryTag tag) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kMemoryAlignment;
  const size_t rounded = round_up(bytes == 0 ? 1 : bytes, kMemoryAlignment);
  void* pointer = std::aligned_alloc(alignment, round_up(rounded, alignment));
  if (pointer == nullptr) {
    throw OutOfMemory(
        fmt::format("host memory: {} bytes for {} refused by the system", bytes, name_of(tag)));
  }
  if (bytes >= kHugePage) {
    // Advice only: without huge pages the memory works the same, with more page faults.
    (void)madvise(pointer, bytes, MADV_HUGEPAGE);
  }
  return pointer;
}

void HostMemory::deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept {
  std::free(pointer);
}

namespace {
constexpr uintptr_t kNowhere = uintptr_t{1} << 40;  // of the first byte, which nobody reads
}

void* MetaMemory::allocate(size_t bytes, MemoryTag tag) {
  const std::optional<size_t> offset = slab_.take(bytes);
  if (!offset) {
    throw OutOfMemory(
        fmt::format("dry run: {} bytes for {}, more than any device has", bytes, name_of(tag)));
  }
  block_bytes_ = std::max(block_bytes_, *offset + slab_bytes(std::max<size_t>(bytes, 1)));
  return reinterpret_cast<void*>(kNowhere + *offset);  // NOLINT(performance-no-int-to-ptr)
}

void MetaMemory::deallocate(void* pointer, size_t /*bytes*/, MemoryTag /*tag*/) noexcept {
  slab_.give_back(reinterpret_cast<uintptr_t>(pointer) - kNowhere);
}

}  // namespace ds
