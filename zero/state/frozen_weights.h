// What keeps the weights of parameters that do not train: a state store that has nothing but them.
// There is no gradient, no slot and no master; a weight is its own, in its own dtype, and nothing
// updates it. Whoever initialises, saves or restores visits it as any other state store. Weights on
// another tier are brought to the device for a visit, one slice at a time, and stored back if the
// visit may have changed them.
#pragma once

#include <memory>
#include <span>

#include "zero/layout/bucket_slots.h"
#include "zero/peers/store_streams.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {

// slots: where slices from another tier lie meanwhile. All of it outlives the store.
std::unique_ptr<OptimizerStateStore> make_frozen_weights(std::span<const StateSlice> slices,
                                                         DType dtype, const StoreStreams& streams,
                                                         BucketSlots& slots);

}  // namespace ds
