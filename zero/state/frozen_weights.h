// What keeps the weights of parameters that do not train: a state store that has nothing but them.
// There is no gradient, no slot and no master; a weight is its own, in its own dtype or as a code,
// and nothing updates it. Whoever initialises, saves or restores visits it as any other state
// store. Weights on another tier are brought to the device for a visit, one slice at a time, and
// stored back if the visit may have changed them. Codes are shown as the fp32 weights that they
// stand for, which give the same codes again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/quantize/block_codes.h"
#include "zero/layout/bucket_slots.h"
#include "zero/peers/store_streams.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {

// A slice of frozen weights.
struct FrozenSlice {
  int64_t numel = 0;  // weights, padding included
  Tensor kept = {};   // they, or their codes; undefined: these are elsewhere
  OffloadedSlice elsewhere = {};
  std::vector<ShardField> fields = {};
};

// As what they are kept.
struct FrozenForm {
  DType dtype = DType::kF32;
  std::optional<kernels::BlockCode> code = std::nullopt;  // nothing: as they are
  std::function<std::string(int)> name = nullptr;         // of a parameter, for errors
};

// slots: where slices from another tier, and weights of codes, lie meanwhile. All of it outlives
// the store. A visit that gives numbers which a code cannot stand for throws DataError.
std::unique_ptr<OptimizerStateStore> make_frozen_weights(std::vector<FrozenSlice> slices,
                                                         FrozenForm form,
                                                         const StoreStreams& streams,
                                                         BucketSlots& slots);

}  // namespace ds
