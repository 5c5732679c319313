// (pure) When stage 3 gathers and releases which bucket. The dry run records the order in which the
// model acquires buckets; from it and the limits of the configuration follows, for every event,
// what to gather (the bucket itself, and prefetches) and what to release; and of buckets whose
// slices lie elsewhere, on the host or on NVMe, when those are fetched, ahead of the gather.
// Without a plan (evaluation, generation, the dry run itself) buckets are gathered when acquired
// and released when idle.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ds {

struct GatherEvent {
  enum class Kind : uint8_t {
    kAcquire,
    kIdle
  } kind = Kind::kAcquire;  // first lease, last lease gone
  int bucket = 0;
  bool operator==(const GatherEvent&) const = default;
};

struct GatherLimits {
  int64_t prefetch_numel = 0;  // stage3_prefetch_bucket_size: elements gathered ahead
  int64_t live_numel = 0;      // stage3_max_live_parameters: elements whole at a time
  int64_t reuse_numel = 0;     // stage3_max_reuse_distance: keep what is needed again within this
  // A slice is fetched this many acquired elements before its bucket is gathered, so that it is
  // there by then; and so many slices at most are fetched and not gathered yet.
  int64_t fetch_numel = 0;
  int fetches = std::numeric_limits<int>::max();
};

struct GatherAction {
  std::vector<int> release;  // before fetching
  std::vector<int> fetch;    // in order, before gathering
  std::vector<int> gather;   // in order; issued at the event, fetches what is not fetched yet
};

struct GatherPlan {
  std::vector<GatherEvent> events;    // one micro-step
  std::vector<GatherAction> actions;  // same index
  int64_t numel_gathered = 0;         // per micro-step
  int64_t numel_fetched = 0;          // of them, of buckets whose slices lie elsewhere
  int64_t live_numel_peak = 0;
  std::string to_string() const;
};

// bucket_numel[b]: elements of bucket b; elsewhere[b]: its slices have to be fetched; brief[b]: it
// is released whenever it is idle, since what it is made of takes less room (empty: none).
// Every bucket that is live after the last event is released
// by that event's action, so that a micro-step starts and ends with nothing gathered.
GatherPlan plan_gathers(std::span<const GatherEvent> events, std::span<const int64_t> bucket_numel,
                        const GatherLimits& limits, const std::vector<bool>& elsewhere = {},
                        const std::vector<bool>& brief = {});

}  // namespace ds
