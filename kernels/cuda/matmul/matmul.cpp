// The CUDA half of products: a library makes them, and kernels do to the result what it leaves.
#include "kernels/cuda/matmul/matmul.h"

#include "kernels/cuda/matmul/finish.h"
#include "kernels/cuda/matmul/library_product.h"

namespace ds::kernels::detail {
namespace {

struct ScratchOfStream {
  Tensor tensor;
};

}  // namespace

const Tensor& product_scratch(Stream& stream) {
  Tensor& tensor = stream.state<ScratchOfStream>().tensor;
  if (!tensor.defined() && product_scratch_bytes() > 0) {
    tensor = Tensor::empty({product_scratch_bytes()}, DType::kU8, stream, MemoryTag::kScratch);
  }
  return tensor;
}

void matmul_cuda(Stream& stream, const MatmulArgs& args) {
  const Gemm left = library_product(stream, gemm_of(args));
  if (has_epilogue(left)) finish_product(stream, left);
}

}  // namespace ds::kernels::detail
