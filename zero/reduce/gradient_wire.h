// GradientWire: how gradients of a group of parameters travel to the ranks that sum them up: as
// they were written or in another dtype, as numbers or as codes.
#pragma once

#include <memory>
#include <optional>

#include "comm/contract/communicator.h"
#include "zero/layout/bucket_layout.h"
#include "zero/layout/bucket_slots.h"
#include "zero/reduce/slice_reduction.h"

namespace ds {

class GradientWire {
 public:
  // quantized: does what a reduction of `comm` would; null: that does. dtype: as sent; nothing: as
  // written. The room for copies is memory that peers read. All of these must outlive it.
  struct Peers {
    Communicator& comm;
    SliceReduction* quantized = nullptr;
  };
  GradientWire(const Peers& peers, std::optional<DType> dtype, const BucketLayout& layout,
               StoreStreams streams, BucketSlots& slots);
  GradientWire(const GradientWire&) = delete;  // refers to its own reduction
  GradientWire& operator=(const GradientWire&) = delete;

  // A bucket as it is sent: itself, or a copy that is good until the next is sent.
  Tensor sent(const Tensor& whole) const;
  // This rank's slice of a bucket.
  Tensor own(const Tensor& whole) const;
  void reduce_scatter(int bucket, const Tensor& from, const Tensor& slice) {
    reduction_.reduce_scatter(bucket, from, slice);
  }
  // `whole` becomes the slices of all ranks, of which this one's is given. What is sent in fewer
  // bits is rounded on this rank too, so that all have the same.
  void gather(const Tensor& slice, const Tensor& whole) const;
  // What is on every rank already is given the bits that it would have if it were sent.
  void round_as_sent(Tensor whole) const;

 private:
  bool narrows(const Tensor& whole) const;

  Communicator& comm_;
  const StoreStreams streams_;
  PlainReduction plain_;
  SliceReduction& reduction_;
  Tensor room_;  // for the copy of the largest bucket, where one is needed
};

}  // namespace ds
