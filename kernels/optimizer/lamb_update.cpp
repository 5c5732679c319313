// The front of LAMB's passes, see lamb_update.h: what their operands must be, and what they cost.
#include "kernels/optimizer/lamb_update.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/optimizer/lamb_update_cpu.h"
#include "kernels/optimizer/lamb_update_cuda.h"

namespace ds::kernels {
namespace {

void check(std::string_view op, const Stream& stream, const LambArgs& args) {
  const int64_t n = args.master.numel();
  for (const auto& [operand, tensor] : {std::pair{"master", args.master},
                                        {"exp_avg", args.exp_avg},
                                        {"exp_avg_sq", args.exp_avg_sq}}) {
    detail::require_numel(op, operand, stream, tensor, n);
    detail::require_dtype(op, operand, tensor, DType::kF32);
  }
  detail::require_numel(op, "grad", stream, args.grad, n);
  detail::require_float(op, "grad", args.grad);
  if (!args.copy.defined()) return;
  detail::require_numel(op, "copy", stream, args.copy, n);
  detail::require_float(op, "copy", args.copy);
}

}  // namespace

void lamb_moments(Stream& stream, const LambArgs& args, const LambRule& rule,
                  const StepScalars& scalars, const Tensor& sums) {
  constexpr std::string_view kOp = "lamb_moments";
  check(kOp, stream, args);
  if (sums.defined()) {
    detail::require_numel(kOp, "sums", stream, sums, kLambSums);
    detail::require_dtype(kOp, "sums", sums, DType::kF64);
  }
  const auto n = static_cast<double>(args.master.numel());
  stream.report(kOp, {.flops = 16 * n, .bytes = 20 * n + static_cast<double>(args.grad.bytes())});
  on_device(
      stream, [&](Cpu) { detail::lamb_moments_cpu(stream, args, rule, scalars, sums); },
      [&](Cuda) { detail::lamb_moments_cuda(stream, args, rule, scalars, sums); });
}

void lamb_apply(Stream& stream, const LambArgs& args, const LambRule& rule,
                const StepScalars& scalars, const LambSums& sums) {
  constexpr std::string_view kOp = "lamb_apply";
  check(kOp, stream, args);
  detail::require_numel(kOp, "gathered", stream, sums.gathered, sums.gathered.numel());
  detail::require_dtype(kOp, "gathered", sums.gathered, DType::kF64);
  DS_CHECK(sums.params > 0 && sums.gathered.numel() % (sums.params * kLambSums) == 0 &&
               sums.param >= 0 && sums.param < sums.params,
           "{}: parameter {} of {}, whose sums are {} numbers", kOp, sums.param, sums.params,
           sums.gathered.numel());
  const auto n = static_cast<double>(args.master.numel());
  stream.report(
      kOp,
      {.flops = 8 * n,
       .bytes = 16 * n + (args.copy.defined() ? static_cast<double>(args.copy.bytes()) : 0.0)});
  on_device(
      stream, [&](Cpu) { detail::lamb_apply_cpu(stream, args, rule, scalars, sums); },
      [&](Cuda) { detail::lamb_apply_cuda(stream, args, rule, scalars, sums); });
}

}  // namespace ds::kernels
