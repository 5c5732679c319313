// The CPU half of kernels/moe/route. Operands have been checked.
#pragma once

#include "kernels/moe/route_operands.h"

namespace ds::kernels::detail {

void route_cpu(Stream& stream, const RouteArgs& args);
void route_weights_cpu(Stream& stream, const RouteRule& rule, const Tensor& scores,
                       const Tensor& experts, Tensor& weights);
void route_backward_cpu(Stream& stream, const RouteBackwardArgs& args);

}  // namespace ds::kernels::detail
