// The front of capacities, see capacity.h.
#include "kernels/moe/capacity.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/moe/capacity_cpu.h"
#include "kernels/moe/cuda/capacity_cuda.h"

namespace ds::kernels {

void drop_over_capacity(Stream& stream, const CapacityArgs& args) {
  constexpr std::string_view kOp = "drop_over_capacity";
  DS_CHECK(args.capacity >= 0, "drop_over_capacity: capacity {}", args.capacity);
  DS_CHECK(args.experts.defined() && args.offsets.defined(),
           "drop_over_capacity: experts or offsets are undefined");
  const int64_t choices = args.experts.numel();
  detail::require_like(kOp, "experts", stream, args.experts, choices, DType::kI32);
  detail::require_like(kOp, "order", stream, args.order, choices, DType::kI32);
  detail::require_like(kOp, "offsets", stream, args.offsets, args.offsets.numel(), DType::kI32);
  DS_CHECK(args.offsets.numel() >= 2, "drop_over_capacity: offsets of no expert");
  if (args.priorities.defined()) {
    detail::require_like(kOp, "priorities", stream, args.priorities, choices, DType::kF32);
  }
  stream.report(kOp, {.flops = 0,
                      .bytes = static_cast<double>(args.order.bytes() + args.experts.bytes() +
                                                   args.priorities.bytes())});
  on_device(
      stream, [&](Cpu) { detail::drop_over_capacity_cpu(stream, args); },
      [&](Cuda) { detail::drop_over_capacity_cuda(stream, args); });
}

}  // namespace ds::kernels
