// The CPU half of kernels/runs. Operands have been checked.
#pragma once

#include "kernels/elementwise/runs.h"

namespace ds::kernels::detail {

void copy_runs_cpu(Stream& stream, const RunGrid& grid, const Tensor& from,
                   const RunPlaces& from_places, Tensor& to, const RunPlaces& to_places);

}  // namespace ds::kernels::detail
