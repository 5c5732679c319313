#include "core/memory_adaptors.h"

#include "core/error.h"

namespace ds {

void MemoryAccount::add(size_t bytes, MemoryTag tag) {
  const std::lock_guard lock(usage_mutex_);
  usage_.bytes_now += bytes;
  usage_.tag_bytes_now[static_cast<size_t>(tag)] += bytes;
  if (usage_.bytes_now > usage_.bytes_peak) {
    usage_.bytes_peak = usage_.bytes_now;
    usage_.tag_bytes_at_peak = usage_.tag_bytes_now;
  }
}

void MemoryAccount::remove(size_t bytes, MemoryTag tag) noexcept {
  const std::lock_guard lock(usage_mutex_);
  usage_.bytes_now -= bytes;
  usage_.tag_bytes_now[static_cast<size_t>(tag)] -= bytes;
}

MemoryUsage MemoryAccount::usage() const {
  const std::lock_guard lock(usage_mutex_);
  return usage_;
}

void* TrackingMemory::allocate(size_t bytes, MemoryTag tag) {
  void* pointer = upstream_.allocate(bytes, tag);
  account_.add(bytes, tag);
  return pointer;
}

void TrackingMemory::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  upstream_.deallocate(pointer, bytes, tag);
  account_.remove(bytes, tag);
}

void* LimitingMemory::allocate(size_t bytes, MemoryTag tag) {
  {
    const std::lock_guard lock(used_mutex_);
    if (bytes > limit_ - used_) {
      throw OutOfMemory(fmt::format("memory limit: {} bytes for {} asked, {} of {} bytes left",
                                    bytes, name_of(tag), limit_ - used_, limit_));
    }
    used_ += bytes;
  }
  try {
    return upstream_.allocate(bytes, tag);
  } catch (...) {
    const std::lock_guard lock(used_mutex_);
    used_ -= bytes;
    throw;
  }
}

void LimitingMemory::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  upstream_.deallocate(pointer, bytes, tag);
  const std::lock_guard lock(used_mutex_);
  used_ -= bytes;
}

}  // namespace ds
