// The slots of a part of a state store: what lies beside them, and what they hold before the first
// step.
#pragma once

#include <cstdint>
#include <span>

#include "optim/optimizer.h"

namespace ds {

// How many scales so many elements of the slot have; 0: it has none.
int64_t scales_of(const SlotSpec& slot, int64_t numel);

// Slots and scales that are zeros become those of an optimizer that has made no step.
void begin_slots(std::span<const SlotSpec> slots, const Shard& shard, Stream& stream);

}  // namespace ds
