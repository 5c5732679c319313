// ReplayArena: one block of memory for a sequence of allocations that is known beforehand. The dry
// run records the sequence on the meta device (RecordingMemory), plan_arena() (pure) gives each
// allocation an offset, and the arena replays it: no fragmentation, no page faults after the first
// round, and a peak that is known before launch.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/memory/resource.h"
#include "core/values/device.h"

namespace ds {

// Allocation i lives from event `begin` to event `end` (events count allocations and frees).
struct AllocationSpan {
  size_t bytes = 0;
  MemoryTag tag = MemoryTag::kActivations;
  int64_t begin = 0;
  int64_t end = 0;
};

struct ArenaPlan {
  std::vector<AllocationSpan> allocations;  // in order of allocation
  std::vector<size_t> offsets;              // same index; bytes from the start of the block
  size_t bytes_total = 0;                   // size of the block
  size_t bytes_peak = 0;                    // highest sum of live allocations: the lower bound
};

// Offsets by greedy best fit, largest first: two allocations alive at once never overlap.
ArenaPlan plan_arena(std::vector<AllocationSpan> allocations);

// Passes everything upstream and keeps the spans.
class RecordingMemory final : public MemoryResource {
 public:
  explicit RecordingMemory(MemoryResource& upstream) : upstream_(upstream) {}
  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;
  std::vector<AllocationSpan> spans() const;  // still-live allocations end at the last event
  size_t count() const { return spans_.size(); }
  int64_t events() const { return events_; }

 private:
  MemoryResource& upstream_;
  std::vector<AllocationSpan> spans_;
  std::unordered_map<void*, size_t> live_;  // pointer -> index into spans_
  int64_t events_ = 0;
};

// Replays a plan inside a block that the caller owns (several arenas that are never used at the
// same time may share one). The n-th allocate() after rewind() must ask for what the n-th recorded
// allocation asked; a difference throws InternalError. rewind() requires that nothing is live.
// AddressSanitizer knows what is live on the CPU: to read a tensor that is gone is an error there.
class ReplayArena final : public MemoryResource {
 public:
  // block: at least plan.bytes_total bytes, aligned to kMemoryAlignment.
  ReplayArena(ArenaPlan plan, void* block, Device device = Device::cpu());
  ReplayArena(const ReplayArena&) = delete;  // the block is given back readable, exactly once
  ReplayArena& operator=(const ReplayArena&) = delete;
  ~ReplayArena() override;

  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;
  void rewind();
  const ArenaPlan& plan() const { return plan_; }

 private:
  const ArenaPlan plan_;
  std::byte* const block_;
  const bool poisons_;
  size_t next_ = 0;
  int64_t live_ = 0;
};

}  // namespace ds
