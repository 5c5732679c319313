// The front of scaling by vectors, see scaling.h: what the operands must be, and what they cost.
#include "kernels/elementwise/scaling.h"

#include "core/device/dispatch.h"
#include "kernels/elementwise/scaling_cpu.h"
#include "kernels/elementwise/scaling_cuda.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"

namespace ds::kernels {

void scale_columns(Stream& stream, const MatrixView& x, const Tensor& factors, const Tensor& bias,
                   const MatrixView& y) {
  constexpr std::string_view kOp = "scale_columns";
  detail::require_view(kOp, "x", stream, x);
  detail::require_view(kOp, "y", stream, y);
  DS_CHECK(x.rows == y.rows && x.columns == y.columns, "{}: x is {} x {}, y is {} x {}", kOp,
           x.rows, x.columns, y.rows, y.columns);
  if (factors.defined()) {
    detail::require_like(kOp, "factors", stream, factors, x.columns, DType::kF32);
  }
  if (bias.defined()) {
    detail::require_numel(kOp, "bias", stream, bias, x.columns);
    detail::require_float(kOp, "bias", bias);
  }
  const auto vectors = static_cast<double>(factors.bytes() + bias.bytes());
  stream.report(kOp, {.flops = 2 * detail::numel_of(x),
                      .bytes = detail::bytes_of(x) + detail::bytes_of(y) + vectors});
  on_device(
      stream, [&](Cpu) { detail::scale_columns_cpu(stream, x, factors, bias, y); },
      [&](Cuda) { detail::scale_columns_cuda(stream, x, factors, bias, y); });
}

void over_roots(Stream& stream, const Tensor& x, const Tensor& squares, Tensor& y) {
  constexpr std::string_view kOp = "over_roots";
  detail::require_numel(kOp, "y", stream, y, y.numel());
  detail::require_numel(kOp, "x", stream, x, y.numel());
  detail::require_float(kOp, "x", x);
  detail::require_like(kOp, "squares", stream, squares, y.numel(), DType::kF32);
  if (y.dtype() != DType::kF32) detail::require_dtype(kOp, "y", y, x.dtype());
  stream.report(kOp, {.flops = 2 * static_cast<double>(y.numel()),
                      .bytes = static_cast<double>(x.bytes() + squares.bytes() + y.bytes())});
  on_device(
      stream, [&](Cpu) { detail::over_roots_cpu(stream, x, squares, y); },
      [&](Cuda) { detail::over_roots_cuda(stream, x, squares, y); });
}

}  // namespace ds::kernels
