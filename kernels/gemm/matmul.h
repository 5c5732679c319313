// Matrix products of fp32, bf16 or fp16 operands, accumulated in fp32, with bias and activation
// fused into the store. The bits of a result depend on the machine's instruction set, never on the
// number of threads.
#pragma once

#include "core/tensor.h"
#include "kernels/activation.h"

namespace ds::kernels {

enum class Write : uint8_t { kOverwrite, kAccumulate };  // y = result, or y += result

// A row-major matrix inside a tensor: element (i, j) is at offset + i * row_stride + j.
struct MatrixView {
  Tensor tensor;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements
  int64_t offset = 0;      // elements
};
MatrixView matrix(const Tensor& tensor, int64_t rows, int64_t columns);  // the whole tensor
MatrixView columns_of(const MatrixView& view, int64_t first, int64_t count);

enum class Transpose : uint8_t { kNo, kYes };

struct MatmulArgs {
  MatrixView a;  // [M, K], or [K, M] when transposed
  MatrixView b;  // [K, N], or [N, K] when transposed
  MatrixView c;  // [M, N]; dtype fp32 or that of a
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  Write write = Write::kOverwrite;
  Tensor bias = {};                           // [N] or undefined; added to every row
  Activation activation = Activation::kNone;  // applied after the bias
  Tensor pre_activation = {};  // [M, N] or undefined: receives a*b + bias before activation
};
// c = activation(op(a) * op(b) + bias), or c += op(a) * op(b) (then no bias, no activation).
void matmul(Stream& stream, const MatmulArgs& args);

// Takes the scratch memory that products of a CUDA stream have as long as it lives, from
// stream.memory() under MemoryTag::kScratch; else the first product does. Called before memory is
// planned by what comes and goes. Streams of CPUs, and of meta that stand for them, have none.
void reserve_matmul_scratch(Stream& stream);

}  // namespace ds::kernels
