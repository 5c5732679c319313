// Sinks of gradients whose optimizer state is offloaded: sums over micro-steps are kept by the
// state store. A slice is handed to it as soon as it is reduced, and a sum is fetched from there to
// be added to. All of the arithmetic is done on the device and on whole slices, as without offload,
// and so the bits are the same.
#pragma once

#include <memory>

#include "zero/reduce/bucket_sink.h"
#include "zero/reduce/gradient_wire.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {

// The sums that a state store keeps, and the squares of those of whole steps.
class StoredSums {
 public:
  // All of these must outlive it.
  StoredSums(OptimizerStateStore& state, int buckets, StoreStreams streams, BucketSlots& slots);
  // completes: whether the sum is that of the step.
  void store(int bucket, const Tensor& sum, bool completes);
  void load(int bucket, const Tensor& sum, Stream& stream) {
    state_.load_gradient(bucket, sum, stream);
  }
  void add_squares(const Tensor& total) const;

 private:
  OptimizerStateStore& state_;
  const StoreStreams streams_;
  BucketSlots& slots_;
  const Tensor squares_;  // fp64 [buckets], of this rank's slices
};

class OffloadedSink : public SendingSink {
 public:
  OffloadedSink(SinkParts parts, StoredSums sums)
      : SendingSink(std::move(parts)), sums_(std::move(sums)) {}
  // Throws: the state store has the gradient.
  Tensor gradient(int bucket) const final;
  void add_sum_of_squares(const Tensor& total) final { sums_.add_squares(total); }

 protected:
  void finish(int /*bucket*/) final {}
  StoredSums& sums() { return sums_; }

 private:
  StoredSums sums_;
};

// Slices are sums over ranks.
class OffloadedSliceSink final : public OffloadedSink {
 public:
  // dtype: as summed over micro-steps.
  OffloadedSliceSink(SinkParts parts, StoredSums sums, std::unique_ptr<GradientWire> wire,
                     DType dtype)
      : OffloadedSink(std::move(parts), std::move(sums)), wire_(std::move(wire)), dtype_(dtype) {}

 protected:
  void send(int bucket) override;

 private:
  void add_to_sum(int bucket, const Tensor& place);

  const std::unique_ptr<GradientWire> wire_;
  const DType dtype_;
};

// Nobody else sums up these gradients. Micro-batches are added up in memory that is kept, which
// goes to the state store when it is complete.
class OffloadedLocalSink : public OffloadedSink {
 public:
  using OffloadedSink::OffloadedSink;

 protected:
  bool starts_anew() const override { return period().begins_sum(); }
  void send(int bucket) override;
};

// If the memory is lent, it goes there after each period, and comes back to be added to.
class OffloadedLentSink final : public OffloadedLocalSink {
 public:
  using OffloadedLocalSink::OffloadedLocalSink;

 protected:
  void begin(int bucket) override;
  void send(int bucket) override { sums().store(bucket, whole(bucket), period().completes_sum()); }
};

}  // namespace ds
