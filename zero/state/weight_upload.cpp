#include "zero/state/weight_upload.h"

#include <algorithm>

#include "core/device/across.h"

namespace ds {

WeightUpload::WeightUpload(std::span<const StatePart> parts, std::span<const StateSlice> slices,
                           Stream& compute, MemoryResource* pinned)
    : compute_(compute) {
  for (const StateSlice& slice : slices) {
    targets_.push_back({.weights = slice.weights, .elsewhere = slice.elsewhere});
  }
  if (compute.stands_for().kind != Device::Kind::kCuda) return;
  size_t largest = 0;
  for (const StatePart& part : parts) {
    if (of(part).weights.defined()) largest = std::max(largest, there(part).bytes());
  }
  constexpr int kPlaces = 2;
  if (largest > 0) ring_.emplace(largest, kPlaces, pinned);
}

Tensor WeightUpload::place(const StatePart& part, Stream& host) {
  const OffloadedSlice& elsewhere = of(part).elsewhere;
  if (elsewhere.keeper != nullptr) {
    return elsewhere.keeper->place(elsewhere.slice, part.begin, part.numel, host);
  }
  const Tensor weights = there(part);
  if (!ring_) return weights;
  host.wait(ring_->free_at());
  std::byte* const at = ring_->take();
  written_ = at;
  return Tensor::borrow(at, weights.shape(), weights.dtype(), host.device());
}

void WeightUpload::send(const StatePart& part, Stream& host) {
  compute_.wait(host.mark());
  const OffloadedSlice& elsewhere = of(part).elsewhere;
  if (elsewhere.keeper != nullptr)
    return elsewhere.keeper->wrote(elsewhere.slice, part.numel, host);
  if (!ring_) return;
  const Tensor weights = there(part);
  copy_across(compute_, Link::kToDevice, written_, weights.address(), weights.bytes(),
              {.what = "weights of bucket", .number = part.bucket});
  ring_->give_back(compute_.mark());
}

}  // namespace ds
