#include "core/memory/replay_arena.h"

#include <algorithm>
#include <numeric>

#include "core/memory/poison.h"
#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

size_t aligned(size_t bytes) { return round_up(std::max<size_t>(bytes, 1), kMemoryAlignment); }

// This is an allocation that has its place.
struct Placed {
  size_t begin = 0, end = 0;    // bytes of the block
  int64_t from = 0, until = 0;  // events
};

// Returns where `bytes` fit best among those alive in this time, given by ascending begin.
size_t best_fit(const std::vector<Placed>& placed, const AllocationSpan& span, size_t bytes) {
  size_t cursor = 0;
  size_t best = SIZE_MAX;
  size_t best_gap = SIZE_MAX;
  for (const Placed& other : placed) {
    if (other.from >= span.end || other.until <= span.begin) continue;
    if (other.begin >= cursor + bytes && other.begin - cursor < best_gap) {
      best = cursor;
      best_gap = other.begin - cursor;
    }
    cursor = std::max(cursor, other.end);
  }
  return best == SIZE_MAX ? cursor : best;
}

size_t peak_of(const std::vector<AllocationSpan>& spans) {
  std::vector<std::pair<int64_t, int64_t>> events;  // (time, +bytes or -bytes); frees sort first
  for (const AllocationSpan& span : spans) {
    events.emplace_back(span.begin, static_cast<int64_t>(aligned(span.bytes)));
    events.emplace_back(span.end, -static_cast<int64_t>(aligned(span.bytes)));
  }
  std::ranges::sort(events);
  int64_t now = 0;
  int64_t peak = 0;
  for (const auto& [time, change] : events) {
    now += change;
    peak = std::max(peak, now);
  }
  return to_size(peak);
}

}  // namespace

ArenaPlan plan_arena(std::vector<AllocationSpan> allocations) {
  ArenaPlan plan;
  plan.bytes_peak = peak_of(allocations);
  plan.offsets.assign(allocations.size(), 0);
  std::vector<size_t> order(allocations.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return allocations[a].bytes > allocations[b].bytes; });

  std::vector<Placed> placed;  // ascending by begin
  for (const size_t index : order) {
    const AllocationSpan& span = allocations[index];
    const size_t bytes = aligned(span.bytes);
    const size_t begin = best_fit(placed, span, bytes);
    plan.offsets[index] = begin;
    plan.bytes_total = std::max(plan.bytes_total, begin + bytes);
    placed.insert(std::ranges::upper_bound(placed, begin, {}, &Placed::begin),
                  {.begin = begin, .end = begin + bytes, .from = span.begin, .until = span.end});
  }
  plan.allocations = std::move(allocations);
  return plan;
}

void* RecordingMemory::allocate(size_t bytes, MemoryTag tag) {
  void* pointer = upstream_.allocate(bytes, tag);
  live_[pointer] = spans_.size();
  spans_.push_back({.bytes = bytes, .tag = tag, .begin = events_++, .end = INT64_MAX});
  return pointer;
}

void RecordingMemory::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  if (const auto found = live_.find(pointer); found != live_.end()) {
    spans_[found->second].end = events_++;
    live_.erase(found);
  }
  upstream_.deallocate(pointer, bytes, tag);
}

std::vector<AllocationSpan> RecordingMemory::spans() const {
  std::vector<AllocationSpan> result = spans_;
  for (AllocationSpan& span : result) span.end = std::min(span.end, events_);
  return result;
}

ReplayArena::ReplayArena(ArenaPlan plan, void* block, Device device)
    : plan_(std::move(plan)),
      block_(static_cast<std::byte*>(block)),
      poisons_(device == Device::cpu()) {
  if (poisons_) poison(block_, plan_.bytes_total);
}

ReplayArena::~ReplayArena() {
  if (poisons_) unpoison(block_, plan_.bytes_total);
}

void* ReplayArena::allocate(size_t bytes, MemoryTag tag) {
  if (next_ >= plan_.allocations.size() || plan_.allocations[next_].bytes != bytes) {
    throw InternalError(fmt::format(
        "replay arena: allocation {} asks {} bytes for {}, the dry run had {}", next_, bytes,
        name_of(tag), next_ < plan_.allocations.size() ? plan_.allocations[next_].bytes : 0));
  }
  ++live_;
  std::byte* pointer = block_ + plan_.offsets[next_++];
  if (poisons_) unpoison(pointer, bytes);
  return pointer;
}

void ReplayArena::deallocate(void* pointer, size_t bytes, MemoryTag /*tag*/) noexcept {
  --live_;
  if (poisons_) poison(pointer, aligned(bytes));
}

void ReplayArena::rewind() {
  DS_CHECK(live_ == 0, "replay arena: rewound with {} live allocations", live_);
  next_ = 0;
}

}  // namespace ds
