// Runs of elements at equal distances, copied from where they lie to where others expect them: the
// heads of a packed projection, and parts of sequences, on their way to other ranks.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

// outer * inner runs of `numel` elements each.
struct RunGrid {
  int64_t outer = 0;
  int64_t inner = 0;
  int64_t numel = 0;
};

// Run (o, i) begins at element first + o * outer + i * inner.
struct RunPlaces {
  int64_t first = 0;
  int64_t outer = 0;
  int64_t inner = 0;
};

// Copies every run, of one dtype, as it is. Elements of `to` between runs stay as they were; the
// tensors do not overlap.
void copy_runs(Stream& stream, const RunGrid& grid, const Tensor& from,
               const RunPlaces& from_places, Tensor& to, const RunPlaces& to_places);

}  // namespace ds::kernels
