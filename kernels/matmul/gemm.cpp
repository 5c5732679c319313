// Which of our products makes one; see gemm.h.
#include "kernels/matmul/gemm.h"

namespace ds::kernels::detail {
namespace {}  // namespace

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
