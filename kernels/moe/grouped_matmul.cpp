// The front of products by expert, see grouped_matmul.h.
#include "kernels/moe/grouped_matmul.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/moe/cuda/grouped_matmul_cuda.h"
#include "kernels/moe/grouped_matmul_cpu.h"
#include "kernels/moe/route_operands.h"

namespace ds::kernels {
namespace {

// Returns the number of experts.
int64_t check_offsets(std::string_view op, const Stream& stream, const Tensor& offsets) {
  DS_CHECK(offsets.defined() && offsets.numel() >= 2, "{}: offsets of no expert", op);
  const int64_t experts = offsets.numel() - 1;
  DS_CHECK(experts <= kMostExperts, "{}: {} experts, expected 1 to {}", op, experts, kMostExperts);
  detail::require_like(op, "offsets", stream, offsets, experts + 1, DType::kI32);
  return experts;
}

// fp32, or the dtype of the factors.
void check_out(std::string_view op, const Tensor& out, DType dtype) {
  DS_CHECK(out.dtype() == dtype || out.dtype() == DType::kF32, "{}: out is {}, expected fp32 or {}",
           op, name_of(out.dtype()), name_of(dtype));
}

OpCost cost_of(int64_t rows, int64_t a, int64_t b, double bytes) {
  return {
      .flops = 2.0 * static_cast<double>(rows) * static_cast<double>(a) * static_cast<double>(b),
      .bytes = bytes};
}

}  // namespace

void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args) {
  constexpr std::string_view kOp = "grouped_matmul";
  const int64_t experts = check_offsets(kOp, stream, args.offsets);
  const int64_t rows = detail::rows_of(kOp, "rows", args.rows, args.depth);
  detail::require_numel(kOp, "rows", stream, args.rows, rows * args.depth);
  detail::require_float(kOp, "rows", args.rows);
  const int64_t of_weights = detail::rows_of(kOp, "weights", args.weights, experts * args.depth);
  DS_CHECK(of_weights >= 1, "grouped_matmul: weights without columns");
  detail::require_like(kOp, "weights", stream, args.weights, of_weights * experts * args.depth,
                       args.rows.dtype());
  detail::require_numel(kOp, "out", stream, args.out, rows * of_weights);
  check_out(kOp, args.out, args.rows.dtype());
  stream.report(kOp, cost_of(rows, of_weights, args.depth,
                             static_cast<double>(args.rows.bytes() + args.weights.bytes() +
                                                 args.out.bytes())));
  on_device(
      stream, [&](Cpu) { detail::grouped_matmul_cpu(stream, args); },
      [&](Cuda) { detail::grouped_matmul_cuda(stream, args); });
}

void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& args) {
  constexpr std::string_view kOp = "grouped_matmul_weights";
  const int64_t experts = check_offsets(kOp, stream, args.offsets);
  const int64_t rows = detail::rows_of(kOp, "a", args.a, args.a_columns);
  detail::require_numel(kOp, "a", stream, args.a, rows * args.a_columns);
  detail::require_float(kOp, "a", args.a);
  DS_CHECK(args.b_columns >= 1, "grouped_matmul_weights: b has {} columns", args.b_columns);
  detail::require_like(kOp, "b", stream, args.b, rows * args.b_columns, args.a.dtype());
  detail::require_numel(kOp, "out", stream, args.out, experts * args.a_columns * args.b_columns);
  check_out(kOp, args.out, args.a.dtype());
  const size_t writes = args.write == Write::kAccumulate ? 2 : 1;
  stream.report(kOp, cost_of(rows, args.a_columns, args.b_columns,
                             static_cast<double>(args.a.bytes() + args.b.bytes() +
                                                 writes * args.out.bytes())));
  on_device(
      stream, [&](Cpu) { detail::grouped_matmul_weights_cpu(stream, args); },
      [&](Cuda) { detail::grouped_matmul_weights_cuda(stream, args); });
}

}  // namespace ds::kernels
