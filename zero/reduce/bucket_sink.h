// BucketSink: what all sinks have in common, which is how contributions find their place in a
// bucket and when it has all of them. What is done with it then is said by those that derive.
#pragma once

#include <memory>
#include <vector>

#include "comm/contract/communicator.h"
#include "zero/reduce/bucket_memory.h"
#include "zero/reduce/gradient_period.h"
#include "zero/reduce/gradient_sink.h"

namespace ds {

// What a sink is made of; what is referred to outlives it.
struct SinkParts {
  const BucketLayout& layout;
  std::unique_ptr<GradientPeriod> period;
  std::unique_ptr<BucketMemory> memory;
  std::vector<Communicator*> others;  // who keep the same slices, and have other parts of them
  StoreStreams streams;
  BucketSlots& slots;
};

class BucketSink : public GradientSink {
 public:
  void begin_step(GradientsOf gradients) override;
  GradSlot slot(int param, const Shape& shape) final;
  void ready(int param) final;
  void end_micro_step() final { parts_.period->end_micro_step(); }
  void repeat_micro_step() final { parts_.period->repeat_micro_step(); }
  void forget_events() final;
  void end_step() override;
  Tensor summed(int param, const Shape& shape) const final;

 protected:
  explicit BucketSink(SinkParts parts);

  // New memory of a bucket gets its first contribution.
  virtual void begin(int bucket);
  // Whether the first contribution of a period overwrites what is in memory.
  virtual bool starts_anew() const { return true; }
  // The bucket has all contributions of a period.
  virtual void complete(int bucket) = 0;
  // The step ends: what is left to do for a bucket, given to the stream of the peers.
  virtual void finish(int bucket) = 0;

  void sum_over_others(Tensor slice) const;
  // total += the squares of these, in order.
  void add_squares(const std::vector<Tensor>& of, const Tensor& total) const;
  Tensor view(const Tensor& whole, int param, const Shape& shape) const;
  int buckets() const { return narrow<int>(reduced_at_.size()); }
  const Bucket& layout_of(int bucket) const { return nth(parts_.layout.buckets(), bucket); }
  int64_t slice_numel(int bucket) const { return parts_.layout.slice_numel(bucket); }
  const Tensor& whole(int bucket) const { return parts_.memory->whole(bucket); }
  GradientPeriod& period() const { return *parts_.period; }
  BucketMemory& memory() const { return *parts_.memory; }
  const StoreStreams& streams() const { return parts_.streams; }
  BucketSlots& slots() const { return parts_.slots; }
  // Until that point a whole bucket is read.
  void read_until(int bucket, const PeerPoint& point) { nth(reduced_at_, bucket) = point; }

 private:
  const SinkParts parts_;
  std::vector<PeerPoint> reduced_at_;
};

// A sink that has complete buckets read by the stream of the peers.
class SendingSink : public BucketSink {
 protected:
  using BucketSink::BucketSink;
  void complete(int bucket) final;
  // Given to the stream of the peers.
  virtual void send(int bucket) = 0;
};

}  // namespace ds
