// ShmArena: a rank's memory that the other processes of its host can map: one nameless, sealed
// file, whose pages are taken as it grows and kept until the arena goes. First fit, lowest address
// first, so that a step that repeats finds its blocks where they were. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "comm/shm/segment.h"
#include "core/memory/resource.h"

namespace ds::detail {

class ShmArena final : public MemoryResource {
 public:
  explicit ShmArena(size_t reserved_bytes);  // rounded up to whole growth steps

  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;

  int fd() const { return fd_.get(); }
  size_t reserved_bytes() const { return mapping_.bytes(); }
  std::byte* base() const { return mapping_.base(); }
  // Offset of [data, data + bytes), if it lies in the arena.
  std::optional<uint64_t> offset_of(const std::byte* data, size_t bytes) const;

 private:
  void add_free(size_t offset, size_t bytes);

  const Fd fd_;
  const ShmMapping mapping_;
  std::mutex free_mutex_;          // guards everything below
  std::map<size_t, size_t> free_;  // offset -> bytes, below top_; neighbours merged
  size_t top_ = 0;                 // nothing beyond is handed out
  size_t committed_ = 0;           // pages taken so far
};

}  // namespace ds::detail
