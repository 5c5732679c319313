#include "zero/layout/bucket_slots.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

using Out = std::pair<const void*, size_t>;

}  // namespace

void BucketSlots::follow(BucketPlan plan, Stream& stream) {
  DS_CHECK(round_ == nullptr && !recording_, "bucket slots: a plan came inside a round");
  DS_CHECK(micro_step_.arena == nullptr, "bucket slots: a second plan");
  const size_t bytes = std::max(plan.micro_step.bytes_total, plan.evaluation.bytes_total);
  if (bytes > 0) {
    const MemoryScope scope(stream, memory_);
    block_ = Tensor::empty({narrow<int64_t>(bytes)}, DType::kU8, stream, MemoryTag::kBuckets);
  }
  // What has been given back may be used by the thread: no arena takes that for an error.
  const Device device = thread_ != nullptr ? Device::meta() : stream.device();
  add_round(micro_step_, std::move(plan.micro_step), device);
  add_round(evaluation_, std::move(plan.evaluation), device);
  for (Place& place : places_) {
    for (size_t other = 0; other < places_.size(); ++other) {
      if (places_[other].begin < place.end && place.begin < places_[other].end) {
        place.sharing.push_back(other);
      }
    }
  }
}

void BucketSlots::add_round(Round& round, ArenaPlan plan, Device device) {
  round.first_place = places_.size();
  for (size_t i = 0; i < plan.offsets.size(); ++i) {
    places_.push_back({.begin = plan.offsets[i],
                       .end = plan.offsets[i] + plan.allocations[i].bytes,
                       .sharing = {}});
  }
  void* block = block_.defined() ? block_.address() : nullptr;
  round.arena = std::make_unique<ReplayArena>(std::move(plan), block, device);
}

void BucketSlots::begin(BucketRound round) {
  out_.clear();
  Round& next = round == BucketRound::kMicroStep ? micro_step_ : evaluation_;
  recording_ = next.arena == nullptr;
  if (recording_) {
    recorded_.clear();
    events_ = 0;
    return;
  }
  next.arena->rewind();
  next.next = 0;
  round_ = &next;
}

void BucketSlots::end() {
  for (AllocationSpan& span : recorded_) span.end = std::min(span.end, events_);
  recording_ = false;
  if (round_ == nullptr) return;
  const Round& round = *std::exchange(round_, nullptr);
  const size_t planned = round.arena->plan().allocations.size();
  DS_CHECK(round.next == planned && out_.empty(),
           "bucket slots: {} of the dry run's {} buckets were taken, {} not given back", round.next,
           planned, out_.size());
}

void BucketSlots::forget_events() {
  for (Place& place : places_) place.idle = {};
}

PeerPoint BucketSlots::mark(const Stream& stream) const {
  const bool by_thread = thread_ != nullptr && &stream == peers_;
  return {.event = stream.mark(), .given = by_thread ? thread_->given() : 0};
}

// The thread itself comes to what it is given next when it is done with what was before.
void BucketSlots::wait_for(const PeerPoint& idle, Stream& stream) {
  stream.wait(idle.event);
  if (thread_ != nullptr && &stream != peers_) thread_->wait(idle.given);
}

Tensor BucketSlots::take(int64_t numel, DType dtype, Stream& stream) {
  const bool planned = round_ != nullptr;
  if (planned && round_->next < round_->arena->plan().allocations.size()) {
    const Place& place = places_[round_->first_place + round_->next];
    for (const size_t other : place.sharing) {
      const bool is_out = std::ranges::find(out_, other, &Out::second) != out_.end();
      DS_CHECK(!is_out, "bucket slots: place {} of the plan has bytes of place {}, which is out",
               round_->first_place + round_->next, other);
      wait_for(places_[other].idle, stream);
    }
  }
  const MemoryScope scope(stream, planned ? static_cast<MemoryResource&>(*round_->arena) : memory_);
  Tensor bucket = Tensor::empty({numel}, dtype, stream, MemoryTag::kBuckets);
  if (planned) {
    out_.emplace_back(bucket.address(), round_->first_place + round_->next++);
  } else if (recording_) {
    out_.emplace_back(bucket.address(), recorded_.size());
    recorded_.push_back({.bytes = bucket.bytes(),
                         .tag = MemoryTag::kBuckets,
                         .begin = events_++,
                         .end = INT64_MAX});
  }
  return bucket;
}

void BucketSlots::give_back(Tensor& bucket, Stream& stream) {
  const auto found =
      std::ranges::find(out_, static_cast<const void*>(bucket.address()), &Out::first);
  if (found != out_.end()) {
    if (round_ != nullptr) {
      places_[found->second].idle = mark(stream);
    } else if (recording_) {
      recorded_[found->second].end = events_++;
    }
    out_.erase(found);
  }
  if (round_ == nullptr && thread_ != nullptr && &stream == peers_) thread_->idle();
  bucket = Tensor();
}

}  // namespace ds
