#include "comm/shm/arena.h"

#include <algorithm>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::detail {
namespace {

constexpr size_t kGrowth = size_t{2} << 20;
constexpr size_t kPage = 4096;

// Large blocks start on pages, so that a peer's mapping of one touches no other.
size_t block_bytes(size_t bytes) {
  return round_up(std::max<size_t>(bytes, 1), bytes >= kPage ? kPage : kMemoryAlignment);
}

size_t align_for(size_t offset, size_t bytes) {
  return round_up(offset, bytes >= kPage ? kPage : kMemoryAlignment);
}

}  // namespace

ShmArena::ShmArena(size_t reserved_bytes)
    : fd_(make_sealed_memory(round_up(std::max<size_t>(reserved_bytes, 1), kGrowth),
                             "shared arena")),
      mapping_(fd_, round_up(std::max<size_t>(reserved_bytes, 1), kGrowth), "shared arena") {}

void* ShmArena::allocate(size_t bytes, MemoryTag tag) {
  const std::lock_guard lock(free_mutex_);
  if (bytes > reserved_bytes()) {
    throw OutOfMemory(fmt::format("shared arena: {} bytes for {} of {} reserved", bytes,
                                  name_of(tag), reserved_bytes()));
  }
  const size_t need = block_bytes(bytes);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [begin, length] = *it;
    const size_t start = align_for(begin, need);
    if (start + need > begin + length) continue;
    free_.erase(it);
    if (start > begin) add_free(begin, start - begin);
    if (start + need < begin + length) add_free(start + need, begin + length - start - need);
    return base() + start;
  }
  const size_t start = align_for(top_, need);
  if (start + need > reserved_bytes()) {
    throw OutOfMemory(fmt::format("shared arena: {} bytes for {}, {} of {} reserved are left",
                                  bytes, name_of(tag), reserved_bytes() - top_, reserved_bytes()));
  }
  if (start + need > committed_) {
    const size_t end = round_up(start + need, kGrowth);
    commit_pages(fd_, committed_, end, fmt::format("shared arena: for {}", name_of(tag)));
    committed_ = end;
  }
  if (start > top_) add_free(top_, start - top_);
  top_ = start + need;
  return base() + start;
}

void ShmArena::deallocate(void* pointer, size_t bytes, MemoryTag /*tag*/) noexcept {
  const std::lock_guard lock(free_mutex_);
  const auto offset = to_size(static_cast<std::byte*>(pointer) - base());
  add_free(offset, block_bytes(bytes));
  // What borders on the untouched end joins it, so that it can become part of a larger block.
  const auto last = std::prev(free_.end());
  if (last->first + last->second == top_) {
    top_ = last->first;
    free_.erase(last);
  }
}

void ShmArena::add_free(size_t offset, size_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace_hint(next, offset, bytes);
}

std::optional<uint64_t> ShmArena::offset_of(const std::byte* data, size_t bytes) const {
  if (data < base() || data > base() + reserved_bytes()) return std::nullopt;
  const auto offset = to_size(data - base());
  if (bytes > reserved_bytes() - offset) return std::nullopt;
  return offset;
}

}  // namespace ds::detail
