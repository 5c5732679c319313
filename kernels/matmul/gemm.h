// Matrix products on raw memory, split over the threads of the stream: our own, and oneDNN's.
// gemm() chooses between them. Internal to kernels/; callers use matmul.h.
#pragma once

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "kernels/front/activation_kind.h"
#include "kernels/front/write.h"

namespace ds::kernels::detail {

struct GemmOperand {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t row_stride = 0;  // elements between rows as stored
  Transpose transpose = Transpose::kNo;
};

// c = activation(op(a) op(b) + bias), or c += op(a) op(b).
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;  // op(a) [m, k], op(b) [k, n]; equal dtypes
  GemmOperand c;     // [m, n], written; never transposed
  Write write = Write::kOverwrite;
  const void* bias = nullptr;  // [n] or null
  DType bias_dtype = DType::kF32;
  Activation activation = Activation::kNone;
  void* pre_activation = nullptr;  // [m, n] contiguous, dtype of c; or null
  // For libraries that do this with the product; gemm() and what it calls do not.
  Activation activation_backward = Activation::kNone;
  const void* activation_input = nullptr;  // [m, n] contiguous, dtype of c
  void* bias_gradient = nullptr;           // or null
  DType bias_gradient_dtype = DType::kF32;
  Factor bias_gradient_of = Factor::kB;
  Write write_bias_gradient = Write::kOverwrite;
};

// Whether there is something to do to the product: bias, activation, the value before it.
bool has_epilogue(const Gemm& gemm);
Gemm without_epilogue(const Gemm& gemm);
// Whether there is something of a backward to do with it: an activation to undo, columns to sum.
bool has_backward(const Gemm& gemm);
Gemm without_backward(const Gemm& gemm);

// Computes the product by the fastest of those below, as the machine and the shape say.
void gemm(Stream& stream, const Gemm& gemm);

// A block of c: rows [row, row + rows), columns [column, column + columns).
struct GemmBlock {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// Bias, activation and conversion of a block of c whose fp32 product lies in `values` (which may be
// c).
void finish_block(const Gemm& gemm, const GemmBlock& block, float* values, int64_t stride);

// Ours: every float dtype, every machine; computes in fp32, with one rounding at the end.
void gemm_packed(Stream& stream, const Gemm& gemm);

// One row times a matrix, at the speed of reading the matrix; every float dtype.
bool is_vector_product(const Gemm& gemm);
void gemm_vector(Stream& stream, const Gemm& gemm);

// oneDNN's: fp32, and bf16 where it has instructions for it; single-threaded calls from our
// threads.
bool onednn_supports(Stream& stream, DType dtype);
void gemm_onednn(Stream& stream, const Gemm& gemm);

// True where oneDNN's product outruns ours: fp32 on x86-64 (by a tenth), and bf16 on machines whose
// bf16 dot products are faster than fp32 (AMX, AMD from Zen 4). Intel's AVX-512 without AMX runs
// them at half the rate of fp32, which ours uses.
bool machine_prefers_onednn(Stream& stream, DType dtype);

}  // namespace ds::kernels::detail
