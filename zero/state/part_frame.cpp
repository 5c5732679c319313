#include "zero/state/part_frame.h"

#include <utility>

#include "core/memory/rounding.h"
#include "core/values/index.h"
#include "zero/state/state_slots.h"

namespace ds {
namespace {

int64_t room(DType dtype, int64_t numel) {
  return round_up(numel * narrow<int64_t>(size_of(dtype)), static_cast<int64_t>(kMemoryAlignment));
}

}  // namespace

PartFrame::PartFrame(const StateOptions& options, int64_t numel)
    : options_(options), numel_(numel) {
  state_bytes_ = room(options.master_dtype, numel);
  for (const SlotSpec& slot : options.slots) {
    state_bytes_ += room(slot.dtype, numel) + room(DType::kU8, scales_of(slot, numel));
  }
}

// Page by page, lest transfers of the two share one.
int64_t PartFrame::grad_at() const { return round_up(state_bytes_, kSwapPage); }

int64_t PartFrame::grad_bytes() const {
  return numel_ * narrow<int64_t>(size_of(options_.grad_dtype));
}

Tensor PartFrame::grad(std::byte* buffer, Device device) const {
  return Tensor::borrow(buffer + grad_at(), {numel_}, options_.grad_dtype, device);
}

Shard PartFrame::shard(std::byte* buffer, Device device) const {
  Shard shard;
  shard.master = Tensor::borrow(buffer, {numel_}, options_.master_dtype, device);
  int64_t at = room(options_.master_dtype, numel_);
  const auto next = [&](DType dtype, int64_t numel) {
    return Tensor::borrow(buffer + std::exchange(at, at + room(dtype, numel)), {numel}, dtype,
                          device);
  };
  for (const SlotSpec& slot : options_.slots) {
    const int64_t scales = scales_of(slot, numel_);
    shard.slots.push_back(next(slot.dtype, numel_));
    shard.scales.push_back(scales > 0 ? next(DType::kU8, scales) : Tensor());
  }
  return shard;
}

}  // namespace ds
