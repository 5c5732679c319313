#include "offload/extent_allocator.h"

#include <optional>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

namespace {

Slab slab_of(int64_t bytes, int64_t alignment) {
  DS_CHECK(bytes >= 0 && alignment > 0,
           "extents: {} bytes in units of {}, expected at least 0 bytes and units of at least 1",
           bytes, alignment);
  return Slab(to_size(bytes), to_size(alignment));
}

}  // namespace

ExtentAllocator::ExtentAllocator(int64_t bytes, int64_t alignment)
    : alignment_(alignment), slab_(slab_of(bytes, alignment)) {}

Extent ExtentAllocator::take(int64_t bytes) {
  DS_CHECK(bytes > 0, "extents: {} bytes asked for, expected at least 1", bytes);
  const std::optional<size_t> offset = slab_.take(to_size(bytes));
  if (!offset) {
    throw OutOfMemory(fmt::format(
        "extents: no room for {} bytes (in units of {}): {} of {} are free, the longest run has {}",
        bytes, alignment_, bytes_free(), this->bytes(), longest_run()));
  }
  return {.offset = narrow<int64_t>(*offset), .bytes = bytes};
}

void ExtentAllocator::give_back(const Extent& extent) {
  const auto taken = extent.offset < 0 ? slab_.taken().end()
                                       : slab_.taken().find(static_cast<size_t>(extent.offset));
  DS_CHECK(taken != slab_.taken().end() && std::cmp_equal(taken->second, extent.bytes),
           "extents: {} bytes at {} given back, which are not taken", extent.bytes, extent.offset);
  slab_.give_back(taken->first);
}

int64_t ExtentAllocator::bytes() const { return narrow<int64_t>(slab_.bytes()); }
int64_t ExtentAllocator::bytes_free() const { return narrow<int64_t>(slab_.bytes_free()); }
int64_t ExtentAllocator::longest_run() const { return narrow<int64_t>(slab_.longest_run()); }

}  // namespace ds
