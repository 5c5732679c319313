// The front of the order of experts, see expert_order.h.
#include "kernels/moe/expert_order.h"

#include <limits>

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/moe/cuda/expert_order_cuda.h"
#include "kernels/moe/expert_order_cpu.h"
#include "kernels/moe/route_operands.h"

namespace ds::kernels {
namespace {

detail::ChoiceWalk check(std::string_view op, const Stream& stream, const Tensor& experts,
                         int64_t choices, const Tensor& counts) {
  const int64_t tokens = detail::rows_of(op, "experts", experts, choices);
  detail::require_like(op, "experts", stream, experts, experts.numel(), DType::kI32);
  DS_CHECK(experts.numel() <= std::numeric_limits<int32_t>::max(),
           "{}: {} choices, more than int32 counts", op, experts.numel());
  DS_CHECK(counts.defined(), "{}: counts is undefined", op);
  detail::require_like(op, "counts", stream, counts, counts.numel(), DType::kI32);
  DS_CHECK(counts.numel() >= 1 && counts.numel() <= kMostExperts,
           "{}: {} experts, expected 1 to {}", op, counts.numel(), kMostExperts);
  return {.tokens = tokens, .choices = choices, .counted = choices, .experts = counts.numel()};
}

}  // namespace

void sort_by_expert(Stream& stream, const Tensor& experts, int64_t choices, ChoiceOrder by,
                    const ExpertOrder& to) {
  constexpr std::string_view kOp = "sort_by_expert";
  detail::ChoiceWalk walk = check(kOp, stream, experts, choices, to.counts);
  walk.by = by;
  detail::require_like(kOp, "offsets", stream, to.offsets, walk.experts + 1, DType::kI32);
  detail::require_like(kOp, "order", stream, to.order, experts.numel(), DType::kI32);
  detail::require_like(kOp, "place", stream, to.place, experts.numel(), DType::kI32);
  stream.report(kOp, {.flops = 0, .bytes = 4 * static_cast<double>(experts.bytes())});
  on_device(
      stream, [&](Cpu) { detail::sort_by_expert_cpu(stream, walk, experts, to); },
      [&](Cuda) { detail::sort_by_expert_cuda(stream, walk, experts, to); });
}

void count_choices(Stream& stream, const Tensor& experts, const CountedChoices& which,
                   Tensor& counts) {
  constexpr std::string_view kOp = "count_choices";
  detail::ChoiceWalk walk = check(kOp, stream, experts, which.choices, counts);
  DS_CHECK(which.counted >= 1 && which.counted <= which.choices,
           "count_choices: the first {} choices, expected 1 to {}", which.counted, which.choices);
  walk.counted = which.counted;
  stream.report(kOp, {.flops = 0, .bytes = static_cast<double>(experts.bytes())});
  on_device(
      stream, [&](Cpu) { detail::count_choices_cpu(stream, walk, experts, counts); },
      [&](Cuda) { detail::count_choices_cuda(stream, walk, experts, counts); });
}

}  // namespace ds::kernels
