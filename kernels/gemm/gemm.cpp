// From matrices in tensors to a product on memory, and which of our products makes it; see gemm.h.
#include "kernels/gemm/gemm.h"

namespace ds::kernels::detail {
namespace {

GemmOperand operand(const MatrixView& view, Transpose transpose) {
  const int64_t start = view.offset * static_cast<int64_t>(size_of(view.tensor.dtype()));
  return {static_cast<std::byte*>(view.tensor.address()) + start, view.tensor.dtype(),
          view.row_stride, transpose};
}

}  // namespace

bool has_epilogue(const Gemm& gemm) {
  return gemm.bias != nullptr || gemm.activation != Activation::kNone ||
         gemm.pre_activation != nullptr;
}

Gemm without_epilogue(const Gemm& gemm) {
  Gemm bare = gemm;
  bare.bias = nullptr;
  bare.bias_dtype = DType::kF32;
  bare.activation = Activation::kNone;
  bare.pre_activation = nullptr;
  return bare;
}

bool has_backward(const Gemm& gemm) {
  return gemm.activation_backward != Activation::kNone || gemm.bias_gradient != nullptr;
}

Gemm without_backward(const Gemm& gemm) {
  Gemm bare = gemm;
  bare.activation_backward = Activation::kNone;
  bare.activation_input = nullptr;
  bare.bias_gradient = nullptr;
  return bare;
}

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

void gemm(Stream& stream, const Gemm& gemm) {
  const bool bias_fits = gemm.bias == nullptr || gemm.bias_dtype != DType::kF16;
  if (is_vector_product(gemm)) {
    gemm_vector(stream, gemm);
  } else if (bias_fits && machine_prefers_onednn(stream, gemm.a.dtype)) {
    gemm_onednn(stream, gemm);
  } else {
    gemm_packed(stream, gemm);
  }
}

}  // namespace ds::kernels::detail
