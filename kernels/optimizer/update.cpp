// The front of optimizer updates, see update.h: what their operands must be, and what they cost.
#include "kernels/optimizer/update.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/optimizer/update_cpu.h"
#include "kernels/optimizer/update_cuda.h"

namespace ds::kernels {

void adam_update(Stream& stream, const AdamArgs& args, const StepScalars& scalars) {
  constexpr std::string_view kOp = "adam_update";
  const int64_t n = args.master.numel();
  detail::require_numel(kOp, "master", stream, args.master, n);
  detail::require_dtype(kOp, "master", args.master, DType::kF32);
  detail::require_numel(kOp, "exp_avg", stream, args.exp_avg, n);
  const DType moments = args.exp_avg.dtype();
  DS_CHECK(moments == DType::kF32 || moments == DType::kBF16,
           "{}: exp_avg is {}, expected fp32 or bf16", kOp, name_of(moments));
  detail::require_numel(kOp, "exp_avg_sq", stream, args.exp_avg_sq, n);
  detail::require_dtype(kOp, "exp_avg_sq", args.exp_avg_sq, moments);
  detail::require_numel(kOp, "grad", stream, args.grad, n);
  detail::require_float(kOp, "grad", args.grad);
  if (args.copy.defined()) {
    detail::require_numel(kOp, "copy", stream, args.copy, n);
    detail::require_float(kOp, "copy", args.copy);
  }
  const double copy_bytes = args.copy.defined() ? static_cast<double>(args.copy.bytes()) : 0;
  const auto moment_bytes = static_cast<double>(args.exp_avg.bytes());
  stream.report(kOp, {.flops = 15 * static_cast<double>(n),
                      .bytes = 8 * static_cast<double>(n) + 4 * moment_bytes +
                               static_cast<double>(args.grad.bytes()) + copy_bytes});
  on_device(
      stream, [&](Cpu) { detail::adam_update_cpu(stream, args, scalars); },
      [&](Cuda) { detail::adam_update_cuda(stream, args, scalars); });
}

}  // namespace ds::kernels
