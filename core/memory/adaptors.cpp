#include "core/memory/adaptors.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

void MemoryAccount::add(size_t bytes, MemoryTag tag) {
  const std::lock_guard lock(usage_mutex_);
  if (bytes > limit_ - usage_.bytes_now) {
    throw OutOfMemory(fmt::format("{} limit: {} bytes for {} asked, {} of {} bytes left", name_,
                                  bytes, name_of(tag), limit_ - usage_.bytes_now, limit_));
  }
  usage_.bytes_now += bytes;
  nth(usage_.tag_bytes_now, tag) += bytes;
  if (usage_.bytes_now > usage_.bytes_peak) {
    usage_.bytes_peak = usage_.bytes_now;
    usage_.tag_bytes_at_peak = usage_.tag_bytes_now;
  }
}

void MemoryAccount::remove(size_t bytes, MemoryTag tag) noexcept {
  const std::lock_guard lock(usage_mutex_);
  usage_.bytes_now -= bytes;
  nth(usage_.tag_bytes_now, tag) -= bytes;
}

MemoryUsage MemoryAccount::usage() const {
  const std::lock_guard lock(usage_mutex_);
  return usage_;
}

void* TrackingMemory::allocate(size_t bytes, MemoryTag tag) {
  void* pointer = upstream_.allocate(bytes, tag);
  try {
    account_.add(bytes, tag);
  } catch (...) {
    upstream_.deallocate(pointer, bytes, tag);
    throw;
  }
  return pointer;
}

void TrackingMemory::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  upstream_.deallocate(pointer, bytes, tag);
  account_.remove(bytes, tag);
}

void* PlanningMemory::allocate(size_t bytes, MemoryTag tag) {
  void* pointer = upstream_.allocate(bytes, tag);
  const std::lock_guard lock(planned_mutex_);
  places_[pointer] = planned_.allocate(bytes, tag);
  return pointer;
}

void PlanningMemory::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  {
    const std::lock_guard lock(planned_mutex_);
    const auto place = places_.find(pointer);
    planned_.deallocate(place->second, bytes, tag);
    places_.erase(place);
  }
  upstream_.deallocate(pointer, bytes, tag);
}

size_t PlanningMemory::block_bytes() const {
  const std::lock_guard lock(planned_mutex_);
  return planned_.block_bytes();
}

RecyclingMemory::~RecyclingMemory() {
  while (!kept_.empty()) drop_one();
}

void* RecyclingMemory::allocate(size_t bytes, MemoryTag tag) {
  const std::lock_guard lock(blocks_mutex_);
  void* pointer = nullptr;
  if (const auto found = kept_.find(bytes); found != kept_.end()) {
    pointer = found->second;
    kept_.erase(found);
    bytes_kept_ -= bytes;
  } else {
    const size_t allowed = std::max(bytes_out_peak_, bytes_out_ + bytes);
    while (!kept_.empty() && bytes_out_ + bytes + bytes_kept_ > allowed) drop_one();
    pointer = upstream_.allocate(bytes, tag);
  }
  bytes_out_ += bytes;
  bytes_out_peak_ = std::max(bytes_out_peak_, bytes_out_);
  return pointer;
}

void RecyclingMemory::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  const std::lock_guard lock(blocks_mutex_);
  bytes_out_ -= bytes;
  try {
    kept_.emplace(bytes, pointer);
    bytes_kept_ += bytes;
  } catch (const std::bad_alloc&) {
    upstream_.deallocate(pointer, bytes, tag);
  }
}

// The largest first: it makes most room.
void RecyclingMemory::drop_one() {
  const auto largest = std::prev(kept_.end());
  upstream_.deallocate(largest->second, largest->first, MemoryTag::kScratch);
  bytes_kept_ -= largest->first;
  kept_.erase(largest);
}

}  // namespace ds
