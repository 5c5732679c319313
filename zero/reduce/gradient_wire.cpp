#include "zero/reduce/gradient_wire.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"

namespace ds {

GradientWire::GradientWire(const Peers& peers, std::optional<DType> dtype,
                           const BucketLayout& layout, StoreStreams streams, BucketSlots& slots)
    : comm_(peers.comm),
      streams_(streams),
      plain_(comm_, streams),
      reduction_(peers.quantized != nullptr ? *peers.quantized : plain_) {
  if (!dtype) return;
  int64_t largest = 0;
  for (const Bucket& bucket : layout.buckets()) largest = std::max(largest, bucket.numel);
  const MemoryScope scope(streams_.compute, slots.memory());
  room_ = Tensor::empty({largest}, *dtype, streams_.compute, MemoryTag::kBuckets);
}

Tensor GradientWire::sent(const Tensor& whole) const {
  if (!room_.defined() || room_.dtype() == whole.dtype()) return whole;
  Tensor copy = room_.narrow(0, whole.numel());
  give(streams_, kernels::cast, whole, copy);
  return copy;
}

Tensor GradientWire::own(const Tensor& whole) const {
  const int64_t numel = whole.numel() / comm_.size();
  return whole.narrow(comm_.rank() * numel, numel);
}

bool GradientWire::narrows(const Tensor& whole) const {
  return room_.defined() && size_of(room_.dtype()) < size_of(whole.dtype());
}

void GradientWire::gather(const Tensor& slice, const Tensor& whole) const {
  const bool is_narrow = narrows(whole);
  Tensor all = is_narrow ? room_.narrow(0, whole.numel()) : whole;
  Tensor place = own(all);
  if (!place.aliases(slice)) kernels::cast(streams_.peers, slice, place);
  comm_.all_gather(place, all, streams_.peers);
  if (!is_narrow) return;
  Tensor back = whole;
  kernels::cast(streams_.peers, all, back);
}

void GradientWire::round_as_sent(Tensor whole) const {
  if (!narrows(whole)) return;
  Tensor sent = room_.narrow(0, whole.numel());
  kernels::cast(streams_.peers, whole, sent);
  kernels::cast(streams_.peers, sent, whole);
}

}  // namespace ds
