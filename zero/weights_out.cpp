#include "zero/weights_out.h"

#include <algorithm>

#include "core/index.h"

namespace ds {

WeightsOut::WeightsOut(std::span<const HomePart> parts, std::vector<Tensor> weights,
                       Stream& compute, MemoryResource* pinned)
    : weights_(std::move(weights)), compute_(compute) {
  if (compute.stands_for().kind != Device::Kind::kCuda || parts.empty()) return;
  size_t largest = 0;
  for (const HomePart& part : parts) largest = std::max(largest, there(part).bytes());
  constexpr int kPlaces = 2;
  ring_.emplace(largest, kPlaces, pinned);
}

Tensor WeightsOut::there(const HomePart& part) const {
  return nth(weights_, part.bucket).narrow(part.begin, part.numel);
}

Tensor WeightsOut::place(const HomePart& part, Device device) {
  const Tensor weights = there(part);
  if (!ring_) return weights;
  std::byte* const at = ring_->take();
  written_ = at;
  return Tensor::borrow(at, weights.shape(), weights.dtype(), device);
}

void WeightsOut::send(const HomePart& part) {
  if (!ring_) return;
  const Tensor weights = there(part);
  compute_.copy(written_, weights.address(), weights.bytes());
  ring_->give_back(compute_.mark());
}

}  // namespace ds
