// The CUDA half of products: a library makes them, and kernels do to the result what it leaves.
#include "kernels/matmul/matmul_cuda.h"

#include "kernels/elementwise/activation_cuda.h"
#include "kernels/matmul/aligned_parts.h"
#include "kernels/matmul/finish.h"
#include "kernels/matmul/library_product.h"
#include "kernels/matmul/matmul_operands.h"
#include "kernels/reduce/reduce_cuda.h"

namespace ds::kernels::detail {
namespace {

struct ScratchOfStream {
  Tensor tensor;
};

// Returns what the library has left to do.
Gemm multiply(Stream& stream, const Gemm& gemm) {
  if (stream.device().is_meta()) return library_product(stream, gemm);
  Gemm left = gemm;
  for (const Gemm& part : aligned_parts(gemm)) left = library_product(stream, part);
  return left;
}

}  // namespace

const Tensor& product_scratch(Stream& stream) {
  Tensor& tensor = stream.state<ScratchOfStream>().tensor;
  if (!tensor.defined() && product_scratch_bytes() > 0) {
    tensor = Tensor::empty({product_scratch_bytes()}, DType::kU8, stream, MemoryTag::kScratch);
  }
  return tensor;
}

void matmul_cuda(Stream& stream, const MatmulArgs& args) {
  const Gemm left = multiply(stream, gemm_of(args));
  if (has_epilogue(left)) finish_product(stream, left);
  if (left.activation_backward != Activation::kNone) {
    Tensor c = args.c.tensor.narrow(args.c.offset, args.c.rows * args.c.columns);
    activation_backward_cuda(stream, args.activation_backward, args.activation_input, c, c);
  }
  if (!args.bias_gradient.defined()) return;
  const MatrixView& factor = args.bias_gradient_of == Factor::kA ? args.a : args.b;
  if (left.bias_gradient != nullptr) {
    Tensor sums = args.bias_gradient;
    column_sum_cuda(stream, factor, args.write_bias_gradient, sums);
  } else {
    column_sum_scratch(stream, factor);  // as planned: on meta nobody knows what a library does
  }
}

}  // namespace ds::kernels::detail
