// The front of routing, see route.h: what its operands must be, and what it costs.
#include "kernels/moe/route.h"

#include <algorithm>

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"
#include "kernels/moe/cuda/route_cuda.h"
#include "kernels/moe/route_cpu.h"

namespace ds::kernels {
namespace {

void check_rule(std::string_view op, const RouteRule& rule) {
  DS_CHECK(rule.experts >= 1 && rule.experts <= kMostExperts, "{}: {} experts, expected 1 to {}",
           op, rule.experts, kMostExperts);
  const int64_t most = std::min(kMostChoices, rule.experts);
  DS_CHECK(rule.choices >= 1 && rule.choices <= most,
           "{}: {} choices of {} experts, expected 1 to {}", op, rule.choices, rule.experts, most);
  DS_CHECK(rule.groups >= 1 && rule.experts % rule.groups == 0,
           "{}: {} groups of {} experts, expected a divisor", op, rule.groups, rule.experts);
  DS_CHECK(rule.limited_groups >= 1 && rule.limited_groups <= rule.groups,
           "{}: {} limited groups, expected 1 to {}", op, rule.limited_groups, rule.groups);
  const int64_t size = rule.experts / rule.groups;
  DS_CHECK(rule.choices <= size * rule.limited_groups,
           "{}: {} choices, but {} limited groups have {} experts", op, rule.choices,
           rule.limited_groups, size * rule.limited_groups);
  DS_CHECK(rule.groups == 1 || rule.group_score == GroupScore::kLargest || size >= 2,
           "{}: groups of {} experts, expected 2 where the best two are summed", op, size);
}

// Returns the number of tokens.
int64_t check_experts(std::string_view op, const Stream& stream, const RouteRule& rule,
                      const Tensor& experts) {
  check_rule(op, rule);
  const int64_t tokens = detail::rows_of(op, "experts", experts, rule.choices);
  detail::require_like(op, "experts", stream, experts, tokens * rule.choices, DType::kI32);
  return tokens;
}

double numbers(int64_t rows, int64_t columns) {
  return static_cast<double>(rows) * static_cast<double>(columns);
}

}  // namespace

void route(Stream& stream, const RouteArgs& args) {
  constexpr std::string_view kOp = "route";
  const RouteRule& rule = args.rule;
  const int64_t tokens = check_experts(kOp, stream, rule, args.experts);
  const auto require = [&](std::string_view name, const Tensor& tensor, int64_t numel) {
    detail::require_like(kOp, name, stream, tensor, numel, DType::kF32);
  };
  require("logits", args.logits, tokens * rule.experts);
  require("weights", args.weights, tokens * rule.choices);
  if (args.bias.defined()) require("bias", args.bias, rule.experts);
  if (args.scores.defined()) require("scores", args.scores, tokens * rule.experts);
  if (args.used.defined()) {
    detail::require_like(kOp, "used", stream, args.used, tokens, DType::kU8);
  }
  stream.report(kOp, {.flops = (detail::kActivationFlops + 2) * numbers(tokens, rule.experts),
                      .bytes = static_cast<double>(args.logits.bytes() + args.experts.bytes() +
                                                   args.weights.bytes() + args.scores.bytes())});
  on_device(
      stream, [&](Cpu) { detail::route_cpu(stream, args); },
      [&](Cuda) { detail::route_cuda(stream, args); });
}

void route_weights(Stream& stream, const RouteRule& rule, const Tensor& scores,
                   const Tensor& experts, Tensor& weights) {
  constexpr std::string_view kOp = "route_weights";
  const int64_t tokens = check_experts(kOp, stream, rule, experts);
  detail::require_like(kOp, "scores", stream, scores, tokens * rule.experts, DType::kF32);
  detail::require_like(kOp, "weights", stream, weights, tokens * rule.choices, DType::kF32);
  stream.report(kOp, {.flops = 3 * numbers(tokens, rule.choices),
                      .bytes = static_cast<double>(experts.bytes() + 2 * weights.bytes())});
  on_device(
      stream, [&](Cpu) { detail::route_weights_cpu(stream, rule, scores, experts, weights); },
      [&](Cuda) { detail::route_weights_cuda(stream, rule, scores, experts, weights); });
}

void route_backward(Stream& stream, const RouteBackwardArgs& args) {
  constexpr std::string_view kOp = "route_backward";
  const RouteRule& rule = args.rule;
  const int64_t tokens = check_experts(kOp, stream, rule, args.experts);
  const auto require = [&](std::string_view name, const Tensor& tensor, int64_t columns) {
    detail::require_like(kOp, name, stream, tensor, tokens * columns, DType::kF32);
  };
  require("scores", args.scores, rule.experts);
  require("dweights", args.dweights, rule.choices);
  require("dlogits", args.dlogits, rule.experts);
  if (args.dscores.defined()) require("dscores", args.dscores, rule.experts);
  const double writes = args.write == Write::kAccumulate ? 2 : 1;
  stream.report(kOp, {.flops = 5 * numbers(tokens, rule.experts),
                      .bytes = static_cast<double>(args.scores.bytes() + args.experts.bytes() +
                                                   args.dweights.bytes() + args.dscores.bytes()) +
                               writes * static_cast<double>(args.dlogits.bytes())});
  on_device(
      stream, [&](Cpu) { detail::route_backward_cpu(stream, args); },
      [&](Cuda) { detail::route_backward_cuda(stream, args); });
}

}  // namespace ds::kernels
