// The front of Muon's small passes, see muon_update.h: what their operands must be, and what they
// cost.
#include "kernels/optimizer/muon_update.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/optimizer/muon_update_cpu.h"
#include "kernels/optimizer/muon_update_cuda.h"

namespace ds::kernels {
namespace {

void check_direction(std::string_view op, const Stream& stream, const Tensor& x, int64_t n) {
  detail::require_numel(op, "x", stream, x, n);
  DS_CHECK(x.dtype() == DType::kF32 || x.dtype() == DType::kBF16,
           "{}: x is {}, expected fp32 or bf16", op, name_of(x.dtype()));
}

double bytes_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.bytes()) : 0.0;
}

}  // namespace

void muon_momentum(Stream& stream, const MuonMomentumArgs& args, float momentum,
                   const StepScalars& scalars) {
  constexpr std::string_view kOp = "muon_momentum";
  const int64_t n = args.momentum.numel();
  detail::require_numel(kOp, "momentum", stream, args.momentum, n);
  detail::require_dtype(kOp, "momentum", args.momentum, DType::kF32);
  detail::require_numel(kOp, "grad", stream, args.grad, n);
  detail::require_float(kOp, "grad", args.grad);
  check_direction(kOp, stream, args.x, n);
  stream.report(kOp,
                {.flops = 6 * static_cast<double>(n),
                 .bytes = 2 * bytes_of(args.momentum) + bytes_of(args.grad) + bytes_of(args.x)});
  on_device(
      stream, [&](Cpu) { detail::muon_momentum_cpu(stream, args, momentum, scalars); },
      [&](Cuda) { detail::muon_momentum_cuda(stream, args, momentum, scalars); });
}

void muon_apply(Stream& stream, const MuonApplyArgs& args, const MuonRule& rule,
                const StepScalars& scalars) {
  constexpr std::string_view kOp = "muon_apply";
  const int64_t n = args.master.numel();
  detail::require_numel(kOp, "master", stream, args.master, n);
  detail::require_dtype(kOp, "master", args.master, DType::kF32);
  check_direction(kOp, stream, args.x, n);
  if (args.copy.defined()) {
    detail::require_numel(kOp, "copy", stream, args.copy, n);
    detail::require_float(kOp, "copy", args.copy);
  }
  stream.report(kOp, {.flops = 3 * static_cast<double>(n),
                      .bytes = 2 * bytes_of(args.master) + bytes_of(args.x) + bytes_of(args.copy)});
  on_device(
      stream, [&](Cpu) { detail::muon_apply_cpu(stream, args, rule, scalars); },
      [&](Cuda) { detail::muon_apply_cuda(stream, args, rule, scalars); });
}

void muon_normalize(Stream& stream, const Tensor& x, const Tensor& squares) {
  constexpr std::string_view kOp = "muon_normalize";
  check_direction(kOp, stream, x, x.numel());
  detail::require_numel(kOp, "squares", stream, squares, 1);
  detail::require_dtype(kOp, "squares", squares, DType::kF64);
  stream.report(kOp, {.flops = static_cast<double>(x.numel()), .bytes = 2 * bytes_of(x)});
  on_device(
      stream, [&](Cpu) { detail::muon_normalize_cpu(stream, x, squares); },
      [&](Cuda) { detail::muon_normalize_cuda(stream, x, squares); });
}

void muon_polynomial(Stream& stream, const Quintic& by, int64_t side, const Tensor& r,
                     const Tensor& s, const Tensor& z) {
  constexpr std::string_view kOp = "muon_polynomial";
  check_direction(kOp, stream, r, side * side);
  for (const Tensor& other : {s, z}) {
    detail::require_numel(kOp, "s or z", stream, other, side * side);
    detail::require_dtype(kOp, "s or z", other, r.dtype());
  }
  stream.report(kOp, {.flops = 3 * static_cast<double>(r.numel()), .bytes = 3 * bytes_of(r)});
  on_device(
      stream, [&](Cpu) { detail::muon_polynomial_cpu(stream, by, side, r, s, z); },
      [&](Cuda) { detail::muon_polynomial_cuda(stream, by, side, r, s, z); });
}

}  // namespace ds::kernels
