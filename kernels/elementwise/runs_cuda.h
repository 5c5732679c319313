// The CUDA half of kernels/runs. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/elementwise/runs.h"

namespace ds::kernels::detail {

void copy_runs_cuda(Stream& stream, const RunGrid& grid, const Tensor& from,
                    const RunPlaces& from_places, Tensor& to, const RunPlaces& to_places);

}  // namespace ds::kernels::detail
