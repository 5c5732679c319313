// GatherRecord: which buckets of a store are gathered when. Its buckets are numbered through all
// groups. The dry run records leases; they make the plan that the real store follows. Without one,
// and outside of micro-steps, a bucket is gathered when it is leased, and released after.
#pragma once

#include <vector>

#include "core/values/index.h"
#include "zero/shard_group.h"

namespace ds {

class GatherRecord {
 public:
  // The slots must outlive it.
  explicit GatherRecord(BucketSlots& slots) : slots_(slots) {}

  // The next group, which outlives it.
  void add(ShardGroup& group);
  int bucket(int group, int bucket_of_group) const {
    return nth(first_bucket_, group) + bucket_of_group;
  }
  // A lease of a bucket that is gathered on use.
  void acquire(int bucket);
  void release(int bucket);
  // Around what plans are made of: no micro-step, or several at once.
  void begin_micro_steps();
  // Throws where the leases were not those of the plan.
  void end_micro_steps();

  int buckets() const { return narrow<int>(buckets_.size()); }
  // What was leased in the latest micro-step makes a plan that keeps the limits.
  GatherPlan plan(const GatherLimits& limits) const;
  void follow(GatherPlan plan) { plan_ = std::move(plan); }
  // The places of buckets are planned in the same way; a micro-step is one of their rounds.
  BucketSlots& slots() const { return slots_; }

 private:
  struct Place {
    ShardGroup* group;
    int bucket;      // within the group
    int leases = 0;  // of its parameters
  };
  void on_event(GatherEvent event);
  void fetch_now(int bucket);
  void gather_now(int bucket);
  void release_now(int bucket);

  BucketSlots& slots_;
  std::vector<int> first_bucket_;  // of each group
  std::vector<Place> buckets_;
  GatherPlan plan_;  // empty: on demand
  std::vector<GatherEvent> recorded_;
  size_t next_event_ = 0;
  bool in_micro_step_ = false;
};

}  // namespace ds
