// Front of the matrix products; see matmul.h: what their operands must be, and what they cost.
#include "kernels/matmul/matmul.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"
#include "kernels/matmul/library_product.h"
#include "kernels/matmul/matmul_cpu.h"
#include "kernels/matmul/matmul_cuda.h"

namespace ds::kernels {
namespace {

struct Extents {
  int64_t m, n, k;
};

Extents extents_of(const MatmulArgs& args) {
  const bool ta = args.transpose_a == Transpose::kYes;
  const bool tb = args.transpose_b == Transpose::kYes;
  return {ta ? args.a.columns : args.a.rows, tb ? args.b.rows : args.b.columns,
          ta ? args.a.rows : args.a.columns};
}

void check(const Stream& stream, const MatmulArgs& args) {
  detail::require_view("matmul", "a", stream, args.a);
  detail::require_view("matmul", "b", stream, args.b);
  detail::require_view("matmul", "c", stream, args.c);
  const auto [m, n, k] = extents_of(args);
  const int64_t b_rows = args.transpose_b == Transpose::kYes ? args.b.columns : args.b.rows;
  DS_CHECK(b_rows == k, "matmul: op(a) is {} x {}, op(b) is {} x {}", m, k, b_rows, n);
  DS_CHECK(args.c.rows == m && args.c.columns == n, "matmul: c is {} x {}, expected {} x {}",
           args.c.rows, args.c.columns, m, n);
  DS_CHECK(k > 0, "matmul: the inner extent is 0");
  const DType dtype = args.a.tensor.dtype();
  detail::require_dtype("matmul", "b", args.b.tensor, dtype);
  const DType c_dtype = args.c.tensor.dtype();
  DS_CHECK(c_dtype == dtype || c_dtype == DType::kF32, "matmul: c is {}, expected fp32 or {}",
           name_of(c_dtype), name_of(dtype));
  const bool epilogue =
      args.bias.defined() || args.activation != Activation::kNone || args.pre_activation.defined();
  DS_CHECK(args.write == Write::kOverwrite || !epilogue,
           "matmul: an accumulating product takes no bias and no activation");
  if (args.bias.defined()) {
    detail::require_numel("matmul", "bias", stream, args.bias, n);
    detail::require_float("matmul", "bias", args.bias);
  }
  if (args.pre_activation.defined()) {
    detail::require_numel("matmul", "pre_activation", stream, args.pre_activation, m * n);
    detail::require_dtype("matmul", "pre_activation", args.pre_activation, c_dtype);
  }
}

void check_backward(const Stream& stream, const MatmulArgs& args) {
  const auto [m, n, k] = extents_of(args);
  if (args.activation_backward != Activation::kNone) {
    DS_CHECK(args.write == Write::kOverwrite && args.activation == Activation::kNone &&
                 !args.bias.defined() && !args.pre_activation.defined(),
             "matmul: a product that undoes an activation does not add up, and has no epilogue");
    DS_CHECK(args.c.row_stride == n, "matmul: c, where an activation is undone, has rows {} apart",
             args.c.row_stride);
    detail::require_numel("matmul", "activation_input", stream, args.activation_input, m * n);
    detail::require_dtype("matmul", "activation_input", args.activation_input,
                          args.c.tensor.dtype());
  }
  if (!args.bias_gradient.defined()) return;
  const bool of_a = args.bias_gradient_of == Factor::kA;
  const Transpose stored = of_a ? args.transpose_a : args.transpose_b;
  DS_CHECK((stored == Transpose::kYes) == of_a,
           "matmul: a bias gradient is the column sums of a transposed a, or of b as it is");
  detail::require_numel("matmul", "bias_gradient", stream, args.bias_gradient, of_a ? m : n);
  detail::require_float("matmul", "bias_gradient", args.bias_gradient);
}

// As the operations that it stands for report themselves.
void report_backward(const Stream& stream, const MatmulArgs& args) {
  if (args.activation_backward != Activation::kNone) {
    stream.report("activation_backward", detail::activation_backward_cost(args.activation_input));
  }
  if (!args.bias_gradient.defined()) return;
  stream.report("column_sum",
                detail::column_sum_cost(args.bias_gradient_of == Factor::kA ? args.a : args.b,
                                        args.bias_gradient));
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  check(stream, args);
  check_backward(stream, args);
  const auto [m, n, k] = extents_of(args);
  const double writes = args.write == Write::kAccumulate || args.pre_activation.defined() ? 2 : 1;
  stream.report("matmul", {.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                                    static_cast<double>(k),
                           .bytes = detail::bytes_of(args.a) + detail::bytes_of(args.b) +
                                    writes * detail::bytes_of(args.c)});
  report_backward(stream, args);
  reserve_matmul_scratch(stream);
  on_device(
      stream, [&](Cpu) { detail::matmul_cpu(stream, args); },
      [&](Cuda) { detail::matmul_cuda(stream, args); });
}

void reserve_matmul_scratch(Stream& stream) {
  if constexpr (kHasCudaKernels) {
    if (stream.stands_for().kind == Device::Kind::kCuda) detail::product_scratch(stream);
  }
}

int64_t matmul_scratch_bytes(Device device) {
  if constexpr (kHasCudaKernels) {
    if (device.kind == Device::Kind::kCuda) return detail::product_scratch_bytes();
  }
  return 0;
}

void set_matmul_rules(Stream& stream, const MatmulRules& rules) {
  if (stream.device().kind == Device::Kind::kCuda) stream.state<MatmulRules>() = rules;
}

std::optional<MatmulPlace> matmul_place(Device device) {
  if constexpr (kHasCudaKernels) {
    if (device.kind == Device::Kind::kCuda) return detail::product_place(device);
  }
  return std::nullopt;
}

}  // namespace ds::kernels
