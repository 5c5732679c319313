// A layer of experts as one differentiable function; see kernels/moe and functions.h.
#pragma once

#include "kernels/elementwise/activation.h"
#include "kernels/moe/route_operands.h"
#include "model/pass/context.h"

namespace ds {

// Parameters are stacked: those of expert e are rows [e] of each.
struct ExpertLayer {
  kernels::RouteRule rule{};
  ParamId router = kNoParam;  // [experts, width]
  ParamId up = kNoParam;      // [experts, 2 * inner, width]: the gate, then what it multiplies
  ParamId down = kNoParam;    // [experts, width, inner]
  int64_t width = 0;
  int64_t inner = 0;
  kernels::Activation activation = kernels::Activation::kNone;  // behind the gate
};
// x [N, width] -> the sum over a token's experts of weight * down(activation(gate(x)) * up(x)),
// [N, width]. No token is dropped. Logits of the router are fp32, of operands in the dtype of x.
Var experts(Context& context, const Var& x, const ExpertLayer& layer);

}  // namespace ds
