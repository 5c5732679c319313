// The CUDA half of kernels/moe/route. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/moe/route_operands.h"

namespace ds::kernels::detail {

void route_cuda(Stream& stream, const RouteArgs& args);
void route_weights_cuda(Stream& stream, const RouteRule& rule, const Tensor& scores,
                        const Tensor& experts, Tensor& weights);
void route_backward_cuda(Stream& stream, const RouteBackwardArgs& args);

}  // namespace ds::kernels::detail
