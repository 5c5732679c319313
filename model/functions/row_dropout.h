// What places of a model drop of rows, so that the mask of a row depends on its sample's index in
// the global batch and its place there, however rows are spread over ranks, passes and tiles.
#pragma once

#include "model/pass/context.h"

namespace ds {

// A place where values are dropped in training. The mask depends on site, step and the element's
// index in the global batch.
struct DropoutSpec {
  float p = 0;
  uint64_t site = 0;  // number of the place within the model
};

// The rows that a function has, as their masks need to know them. The context's Parallel outlives
// it.
struct DroppedRows {
  const MicroInputs* micro = nullptr;  // null: nothing is dropped
  const Parallel* parallel = &kUnshared;
  int64_t length = 0;  // of samples, or of the parts of them that are here
  int64_t first = 0;   // rows of the first sample that come before
};
// The rows of a function that has all of the pass, but for context.pass.first_row before them.
DroppedRows rows_of_pass(const Context& context);

// Whether something of it is dropped of such rows.
bool drops(const DroppedRows& rows, const DropoutSpec& spec);
// x [n, width] without what the place drops: in place where nobody else holds x. The same of a
// gradient is its backward.
Tensor dropped(Stream& stream, const DroppedRows& rows, const DropoutSpec& spec, Tensor x);

}  // namespace ds
