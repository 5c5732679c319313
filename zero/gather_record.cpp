#include "zero/gather_record.h"

#include <algorithm>
#include <functional>

#include "core/status/error.h"

namespace ds {

void GatherRecord::add(ShardGroup& group) {
  first_bucket_.push_back(buckets());
  const int count = narrow<int>(group.layout().buckets().size());
  for (int b = 0; b < count; ++b) buckets_.push_back({.group = &group, .bucket = b});
}

void GatherRecord::acquire(int bucket) {
  if (nth(buckets_, bucket).leases++ > 0) return;
  on_event({.kind = GatherEvent::Kind::kAcquire, .bucket = bucket});
}

void GatherRecord::release(int bucket) {
  if (--nth(buckets_, bucket).leases > 0) return;
  on_event({.kind = GatherEvent::Kind::kIdle, .bucket = bucket});
}

void GatherRecord::fetch_now(int bucket) {
  const Place& place = nth(buckets_, bucket);
  place.group->fetch(place.bucket);
}

void GatherRecord::gather_now(int bucket) {
  const Place& place = nth(buckets_, bucket);
  place.group->gather(place.bucket);
}

void GatherRecord::release_now(int bucket) {
  const Place& place = nth(buckets_, bucket);
  place.group->release(place.bucket);
}

void GatherRecord::on_event(GatherEvent event) {
  const bool planned = in_micro_step_ && !plan_.events.empty();
  if (!planned) {
    if (in_micro_step_) recorded_.push_back(event);
    event.kind == GatherEvent::Kind::kAcquire ? gather_now(event.bucket)
                                              : release_now(event.bucket);
    return;
  }
  DS_CHECK(next_event_ < plan_.events.size() && plan_.events[next_event_] == event,
           "gather plan: event {} on bucket {} is not what the dry run did", next_event_,
           event.bucket);
  const GatherAction& action = plan_.actions[next_event_++];
  for (const int b : action.release) release_now(b);
  for (const int b : action.fetch) fetch_now(b);
  for (const int b : action.gather) gather_now(b);
}

void GatherRecord::begin_micro_steps() {
  in_micro_step_ = true;
  next_event_ = 0;
  recorded_.clear();
  slots_.begin(BucketRound::kMicroStep);
}

void GatherRecord::end_micro_steps() {
  in_micro_step_ = false;
  DS_CHECK(plan_.events.empty() || next_event_ == plan_.events.size(),
           "gather plan: the micro-step made {} of the dry run's {} events", next_event_,
           plan_.events.size());
}

GatherPlan GatherRecord::plan(const GatherLimits& limits) const {
  std::vector<int64_t> numel;
  std::vector<bool> offloaded, coded;
  for (const Place& place : buckets_) {
    numel.push_back(nth(place.group->layout().buckets(), place.bucket).numel);
    offloaded.push_back(place.group->offloads_weights(place.bucket));
    coded.push_back(place.group->key().code.has_value());
  }
  if (std::ranges::none_of(offloaded, std::identity())) offloaded.clear();
  return plan_gathers(recorded_, numel, limits, offloaded, coded);
}

}  // namespace ds
