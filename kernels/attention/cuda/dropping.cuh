// What dropout of probabilities follows from, found before the kernels of attention: these have no
// registers to find it in.
#pragma once

#include "core/device/tensor.h"
#include "kernels/attention/attention_operands.h"

namespace ds::kernels::detail {

// This is what dropout of one sample follows from.
struct Dropping {
  uint64_t key;        // of the generator of this place in the model
  int64_t first_head;  // of those that are here, counted through the global batch
};

// [batch] of them in scratch memory, as the stream will have them; undefined where nothing is
// dropped.
Tensor droppings_of(Stream& stream, const AttentionOperands& operands);

}  // namespace ds::kernels::detail
