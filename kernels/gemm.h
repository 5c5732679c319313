// The oneDNN half of matmul: one row-major product on raw memory, split over the threads of the stream.
// Primitives are made once per shape and kept in the stream's state. Internal to kernels/.
#pragma once

#include <functional>

#include "core/stream.h"
#include "core/tensor.h"
#include "kernels/matmul.h"

namespace ds::kernels::detail {

struct GemmOperand {
  const void* data = nullptr;
  DType dtype = DType::kF32;   // fp32, or bf16 where gemm_supports(bf16)
  int64_t row_stride = 0;      // elements between rows as stored
  Transpose transpose = Transpose::kNo;
};

struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;            // op(a) [m, k], op(b) [k, n]; equal dtypes
  void* c = nullptr;           // [m, n], fp32 or the dtype of a
  DType c_dtype = DType::kF32;
  int64_t c_row_stride = 0;
  Write write = Write::kOverwrite;
  const void* bias = nullptr;  // [n] or null
  DType bias_dtype = DType::kF32;
};

// A block of c: rows [row, row + rows), columns [column, column + columns).
struct GemmBlock {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// False where oneDNN has no product for the dtype on this machine: then convert to fp32 first.
bool gemm_supports(Stream& stream, DType dtype);

// Computes c. Each thread calls finish (if given) on its block as soon as that is stored, while it is
// still in the cache.
void gemm(Stream& stream, const Gemm& args, const std::function<void(const GemmBlock&)>& finish = {});

}  // namespace ds::kernels::detail
