// The front of the rows of experts, see expert_rows.h.
#include "kernels/moe/expert_rows.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/moe/cuda/expert_rows_cuda.h"
#include "kernels/moe/expert_rows_cpu.h"

namespace ds::kernels {
namespace {

void check_shape(std::string_view op, const RowsOfTokens& shape) {
  DS_CHECK(shape.choices >= 1 && shape.columns >= 1, "{}: {} choices, rows of {}", op,
           shape.choices, shape.columns);
}

void check_back(std::string_view op, const Stream& stream, const RowsBack& args) {
  check_shape(op, args.shape);
  const int64_t rows = detail::rows_of(op, "rows", args.rows, args.shape.columns);
  detail::require_numel(op, "rows", stream, args.rows, rows * args.shape.columns);
  detail::require_float(op, "rows", args.rows);
  const int64_t tokens = detail::rows_of(op, "y", args.y, args.shape.columns);
  detail::require_like(op, "y", stream, args.y, tokens * args.shape.columns, args.rows.dtype());
  detail::require_like(op, "place", stream, args.place, tokens * args.shape.choices, DType::kI32);
  if (args.weights.defined()) {
    detail::require_like(op, "weights", stream, args.weights, tokens * args.shape.choices,
                         DType::kF32);
  }
}

// Each choice reads or writes a row.
double bytes_of_choices(const RowsOfTokens& shape, const Tensor& place, DType dtype) {
  return static_cast<double>(place.numel() * shape.columns) * static_cast<double>(size_of(dtype));
}

}  // namespace

void gather_expert_rows(Stream& stream, const RowsThere& args) {
  constexpr std::string_view kOp = "gather_expert_rows";
  check_shape(kOp, args.shape);
  const int64_t tokens = detail::rows_of(kOp, "x", args.x, args.shape.columns);
  detail::require_numel(kOp, "x", stream, args.x, tokens * args.shape.columns);
  detail::require_float(kOp, "x", args.x);
  const int64_t rows = detail::rows_of(kOp, "rows", args.rows, args.shape.columns);
  detail::require_like(kOp, "rows", stream, args.rows, rows * args.shape.columns, args.x.dtype());
  detail::require_like(kOp, "order", stream, args.order, rows, DType::kI32);
  const bool weighted = args.weights.defined();
  if (weighted) {
    detail::require_like(kOp, "weights", stream, args.weights, tokens * args.shape.choices,
                         DType::kF32);
  }
  stream.report(kOp, {.flops = weighted ? static_cast<double>(args.rows.numel()) : 0.0,
                      .bytes = static_cast<double>(2 * args.rows.bytes() + args.order.bytes())});
  on_device(
      stream, [&](Cpu) { detail::gather_expert_rows_cpu(stream, args); },
      [&](Cuda) { detail::gather_expert_rows_cuda(stream, args); });
}

void return_expert_rows(Stream& stream, const RowsBack& args) {
  constexpr std::string_view kOp = "return_expert_rows";
  check_back(kOp, stream, args);
  const double weighs = args.weights.defined() ? 2 : 1;
  const double numbers = static_cast<double>(args.place.numel() * args.shape.columns);
  stream.report(kOp, {.flops = weighs * numbers,
                      .bytes = bytes_of_choices(args.shape, args.place, args.rows.dtype()) +
                               static_cast<double>(args.y.bytes() + args.place.bytes())});
  on_device(
      stream, [&](Cpu) { detail::return_expert_rows_cpu(stream, args); },
      [&](Cuda) { detail::return_expert_rows_cuda(stream, args); });
}

void expert_row_dots(Stream& stream, const RowsBack& args) {
  constexpr std::string_view kOp = "expert_row_dots";
  check_back(kOp, stream, args);
  DS_CHECK(args.weights.defined(), "expert_row_dots: weights are undefined");
  const double numbers = static_cast<double>(args.place.numel() * args.shape.columns);
  stream.report(kOp, {.flops = 2 * numbers,
                      .bytes = bytes_of_choices(args.shape, args.place, args.rows.dtype()) +
                               static_cast<double>(args.y.bytes() + args.weights.bytes())});
  on_device(
      stream, [&](Cpu) { detail::expert_row_dots_cpu(stream, args); },
      [&](Cuda) { detail::expert_row_dots_cuda(stream, args); });
}

}  // namespace ds::kernels
