// The front of reductions, see reduce.h: what their operands must be, and what they cost.
#include "kernels/reduce/reduce.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"
#include "kernels/reduce/reduce_cpu.h"
#include "kernels/reduce/reduce_cuda.h"

namespace ds::kernels {
namespace {

void check(std::string_view op, const Stream& stream, const Tensor& x) {
  detail::require_numel(op, "x", stream, x, x.numel());
  detail::require_float(op, "x", x);
  stream.report(
      op, {.flops = 2 * static_cast<double>(x.numel()), .bytes = static_cast<double>(x.bytes())});
}

void check_total(std::string_view op, const Stream& stream, const Tensor& total) {
  detail::require_numel(op, "total", stream, total, 1);
  detail::require_dtype(op, "total", total, DType::kF64);
}

}  // namespace

void sum_into(Stream& stream, const Tensor& x, double divisor, Write write, Tensor total) {
  check("sum_into", stream, x);
  check_total("sum_into", stream, total);
  on_device(
      stream, [&](Cpu) { detail::sum_into_cpu(stream, x, divisor, write, total); },
      [&](Cuda) { detail::sum_into_cuda(stream, x, divisor, write, total); });
}

void sum_of_squares_into(Stream& stream, const Tensor& x, Write write, Tensor total) {
  check("sum_of_squares_into", stream, x);
  check_total("sum_of_squares_into", stream, total);
  on_device(
      stream, [&](Cpu) { detail::sum_of_squares_into_cpu(stream, x, write, total); },
      [&](Cuda) { detail::sum_of_squares_into_cuda(stream, x, write, total); });
}

void largest_into(Stream& stream, const Tensor& x, Tensor total) {
  check("largest_into", stream, x);
  detail::require_dtype("largest_into", "x", x, DType::kF32);
  check_total("largest_into", stream, total);
  on_device(
      stream, [&](Cpu) { detail::largest_into_cpu(stream, x, total); },
      [&](Cuda) { detail::largest_into_cuda(stream, x, total); });
}

void add_in_order(Stream& stream, const Tensor& numbers, Tensor total) {
  constexpr std::string_view kOp = "add_in_order";
  detail::require_numel(kOp, "numbers", stream, numbers, numbers.numel());
  detail::require_dtype(kOp, "numbers", numbers, DType::kF64);
  check_total(kOp, stream, total);
  stream.report(kOp, {.flops = static_cast<double>(numbers.numel()),
                      .bytes = static_cast<double>(numbers.bytes())});
  on_device(
      stream, [&](Cpu) { detail::add_in_order_cpu(numbers, total); },
      [&](Cuda) { detail::add_in_order_cuda(stream, numbers, total); });
}

bool all_finite(Stream& stream, const Tensor& x) {
  check("all_finite", stream, x);
  bool finite = true;  // on meta
  on_device(
      stream, [&](Cpu) { finite = detail::all_finite_cpu(stream, x); },
      [&](Cuda) { finite = detail::all_finite_cuda(stream, x); });
  return finite;
}

void column_sum(Stream& stream, const Tensor& x, Write write, Tensor& y) {
  detail::require_numel("column_sum", "y", stream, y, y.numel());
  const int64_t rows = detail::rows_of("column_sum", "x", x, y.numel());
  column_sum(stream, matrix(x, rows, y.numel()), write, y);
}

void column_sum(Stream& stream, const MatrixView& x, Write write, Tensor& y) {
  detail::require_numel("column_sum", "y", stream, y, x.columns);
  detail::require_numel("column_sum", "x", stream, x.tensor, x.tensor.numel());
  detail::require_float("column_sum", "x", x.tensor);
  detail::require_float("column_sum", "y", y);
  const int64_t last = x.rows == 0 ? 0 : x.offset + (x.rows - 1) * x.row_stride + x.columns;
  DS_CHECK(x.row_stride >= x.columns && x.offset >= 0 && last <= x.tensor.numel(),
           "column_sum: x ends at element {} of a tensor of {}, its rows are {} apart", last,
           x.tensor.numel(), x.row_stride);
  stream.report("column_sum", detail::column_sum_cost(x, y));
  on_device(
      stream, [&](Cpu) { detail::column_sum_cpu(stream, x, write, y); },
      [&](Cuda) { detail::column_sum_cuda(stream, x, write, y); });
}

}  // namespace ds::kernels
