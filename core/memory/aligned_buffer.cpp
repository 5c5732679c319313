#include "core/memory/aligned_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>

#include "core/files/file.h"
#include "core/memory/resource.h"
#include "core/memory/rounding.h"
#include "core/status/error.h"

namespace ds {
namespace {

std::byte* allocate(size_t bytes) {
  if (bytes >= kHugePage) {
    return static_cast<std::byte*>(HostMemory().allocate(bytes, MemoryTag::kScratch));
  }
  constexpr auto kUnit = static_cast<size_t>(kUncachedAlignment);
  void* data = std::aligned_alloc(kUnit, round_up(bytes == 0 ? 1 : bytes, kUnit));
  if (data == nullptr) {
    throw OutOfMemory(fmt::format("aligned buffer: {} bytes refused by the system", bytes));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes) : bytes_(allocate(bytes), bytes) {}

AlignedBuffer::~AlignedBuffer() {
  // The heap may go on using small pages.
  if (is_locked_) ::munlock(bytes_.data(), bytes_.size());
  if (bytes_.size() >= kHugePage) {
    HostMemory().deallocate(bytes_.data(), bytes_.size(), MemoryTag::kScratch);
  } else {
    std::free(bytes_.data());
  }
}

int AlignedBuffer::lock() noexcept {
  if (::mlock(bytes_.data(), bytes_.size()) != 0) return errno;
  is_locked_ = true;
  return 0;
}

}  // namespace ds
