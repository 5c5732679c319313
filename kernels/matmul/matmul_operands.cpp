#include "kernels/matmul/matmul_operands.h"

namespace ds::kernels::detail {
namespace {

GemmOperand operand(const MatrixView& view, Transpose transpose) {
  const int64_t start = view.offset * static_cast<int64_t>(size_of(view.tensor.dtype()));
  return {static_cast<std::byte*>(view.tensor.address()) + start, view.tensor.dtype(),
          view.row_stride, transpose};
}

}  // namespace

Gemm gemm_of(const MatmulArgs& args) {
  const bool ta = args.transpose_a == Transpose::kYes;
  return {.m = args.c.rows,
          .n = args.c.columns,
          .k = ta ? args.a.rows : args.a.columns,
          .a = operand(args.a, args.transpose_a),
          .b = operand(args.b, args.transpose_b),
          .c = operand(args.c, Transpose::kNo),
          .write = args.write,
          .bias = args.bias.address(),
          .bias_dtype = args.bias.defined() ? args.bias.dtype() : DType::kF32,
          .activation = args.activation,
          .pre_activation = args.pre_activation.address(),
          .activation_backward = args.activation_backward,
          .activation_input = args.activation_input.address(),
          .bias_gradient = args.bias_gradient.address(),
          .bias_gradient_dtype =
              args.bias_gradient.defined() ? args.bias_gradient.dtype() : DType::kF32,
          .bias_gradient_of = args.bias_gradient_of,
          .write_bias_gradient = args.write_bias_gradient};
}

}  // namespace ds::kernels::detail
