// The CUDA half of kernels/moe/capacity. Operands have been checked.
#pragma once

#include "kernels/moe/capacity_operands.h"

namespace ds::kernels::detail {

void drop_over_capacity_cuda(Stream& stream, const CapacityArgs& args);

}  // namespace ds::kernels::detail
