// The front of sums of products, see dots.h: what their operands must be, and what they cost.
#include "kernels/reduce/dots.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"
#include "kernels/reduce/dots_cpu.h"
#include "kernels/reduce/dots_cuda.h"

namespace ds::kernels {
namespace {

void require_pair(std::string_view op, const Stream& stream, const MatrixView& a,
                  const MatrixView& b) {
  detail::require_view(op, "a", stream, a);
  detail::require_view(op, "b", stream, b);
  DS_CHECK(a.rows == b.rows && a.columns == b.columns, "{}: a is {} x {}, b is {} x {}", op, a.rows,
           a.columns, b.rows, b.columns);
}

// One matrix that is both operands is read once.
OpCost dots_cost(const MatrixView& a, const MatrixView& b, const Tensor& out) {
  const bool is_one = a.tensor.aliases(b.tensor) && a.tensor.dtype() == b.tensor.dtype() &&
                      a.offset == b.offset && a.row_stride == b.row_stride;
  const double read = detail::bytes_of(a) + (is_one ? 0 : detail::bytes_of(b));
  return {.flops = 2 * detail::numel_of(a), .bytes = read + static_cast<double>(out.bytes())};
}

}  // namespace

void row_dots(Stream& stream, const MatrixView& a, const MatrixView& b, Write write, Tensor& out) {
  constexpr std::string_view kOp = "row_dots";
  require_pair(kOp, stream, a, b);
  detail::require_like(kOp, "out", stream, out, a.rows, DType::kF32);
  stream.report(kOp, dots_cost(a, b, out));
  on_device(
      stream, [&](Cpu) { detail::row_dots_cpu(stream, a, b, write, out); },
      [&](Cuda) { detail::row_dots_cuda(stream, a, b, write, out); });
}

void column_dots(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                 Tensor& out) {
  constexpr std::string_view kOp = "column_dots";
  require_pair(kOp, stream, a, b);
  detail::require_numel(kOp, "out", stream, out, a.columns);
  detail::require_float(kOp, "out", out);
  stream.report(kOp, dots_cost(a, b, out));
  on_device(
      stream, [&](Cpu) { detail::column_dots_cpu(stream, a, b, write, out); },
      [&](Cuda) { detail::column_dots_cuda(stream, a, b, write, out); });
}

}  // namespace ds::kernels
