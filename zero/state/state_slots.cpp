#include "zero/state/state_slots.h"

#include "kernels/elementwise/elementwise.h"

namespace ds {

int64_t scales_of(const SlotSpec& slot, int64_t numel) {
  return slot.dtype == DType::kU8 ? numel / kWeightsPerScale : 0;
}

void begin_slots(std::span<const SlotSpec> slots, const Shard& shard, Stream& stream) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].initial == 0) continue;
    Tensor numbers =
        Tensor::empty(shard.slots[i].shape(), DType::kF32, stream, MemoryTag::kScratch);
    kernels::fill(stream, numbers, slots[i].initial);
    kernels::pack_state(
        stream, numbers,
        {.values = shard.slots[i], .scales = shard.scales[i], .format = format_of(slots[i])});
  }
}

}  // namespace ds
