// The front of what is done by places, see selection.h: what operands must be, and what it costs.
#include "kernels/selection/selection.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/selection/selection_cpu.h"
#include "kernels/selection/selection_cuda.h"

namespace ds::kernels {
namespace {

void check(std::string_view op, const Stream& stream, const Tensor& from, const Tensor& places,
           const Tensor& to) {
  detail::require_numel(op, "places", stream, places, places.numel());
  detail::require_dtype(op, "places", places, DType::kI32);
  detail::require_float(op, "from", from);
  detail::require_dtype(op, "from", from, to.dtype());
  const auto count = static_cast<double>(places.numel());
  const auto size = static_cast<double>(size_of(to.dtype()));
  stream.report(op, {.flops = 0, .bytes = count * (2 * size + sizeof(int32_t))});
}

}  // namespace

void take(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to) {
  detail::require_numel("take", "from", stream, from, from.numel());
  detail::require_numel("take", "to", stream, to, places.numel());
  check("take", stream, from, places, to);
  on_device(
      stream, [&](Cpu) { detail::take_cpu(stream, from, places, to); },
      [&](Cuda) { detail::take_cuda(stream, from, places, to); });
}

void put(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to) {
  detail::require_numel("put", "to", stream, to, to.numel());
  detail::require_numel("put", "from", stream, from, places.numel());
  check("put", stream, from, places, to);
  on_device(
      stream, [&](Cpu) { detail::put_cpu(stream, from, places, to); },
      [&](Cuda) { detail::put_cuda(stream, from, places, to); });
}

void add_scaled(Stream& stream, float factor, const Tensor& x, Tensor& y) {
  constexpr std::string_view kOp = "add_scaled";
  detail::require_numel(kOp, "y", stream, y, y.numel());
  detail::require_dtype(kOp, "y", y, DType::kF32);
  detail::require_numel(kOp, "x", stream, x, y.numel());
  detail::require_float(kOp, "x", x);
  stream.report(kOp, {.flops = 2 * static_cast<double>(y.numel()),
                      .bytes = static_cast<double>(x.bytes() + 2 * y.bytes())});
  on_device(
      stream, [&](Cpu) { detail::add_scaled_cpu(stream, factor, x, y); },
      [&](Cuda) { detail::add_scaled_cuda(stream, factor, x, y); });
}

int64_t groups_of_rows(const MatrixRange& range) {
  const int64_t first_row = range.first / range.columns;
  const int64_t end_row = (range.first + range.numel + range.columns - 1) / range.columns;
  return (end_row - first_row + kRowsOfSum - 1) / kRowsOfSum;
}

void column_squares(Stream& stream, const Tensor& x, const MatrixRange& range, Tensor& parts,
                    Tensor& totals) {
  constexpr std::string_view kOp = "column_squares";
  DS_CHECK(range.first >= 0 && range.columns > 0, "column_squares: from element {} of {} columns",
           range.first, range.columns);
  detail::require_numel(kOp, "x", stream, x, range.numel);
  detail::require_float(kOp, "x", x);
  detail::require_numel(kOp, "totals", stream, totals, range.columns);
  detail::require_dtype(kOp, "totals", totals, DType::kF64);
  detail::require_numel(kOp, "parts", stream, parts, parts.numel());
  detail::require_dtype(kOp, "parts", parts, DType::kF64);
  const int64_t needed = groups_of_rows(range) * range.columns;
  DS_CHECK(parts.numel() >= needed, "column_squares: room for {} parts, expected {}", parts.numel(),
           needed);
  stream.report(kOp, {.flops = 2 * static_cast<double>(range.numel),
                      .bytes = static_cast<double>(x.bytes() + totals.bytes()) +
                               2.0 * sizeof(double) * static_cast<double>(needed)});
  on_device(
      stream, [&](Cpu) { detail::column_squares_cpu(stream, x, range, parts, totals); },
      [&](Cuda) { detail::column_squares_cuda(stream, x, range, parts, totals); });
}

}  // namespace ds::kernels
