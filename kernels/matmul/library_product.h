// The product of a CUDA stream, which a library makes: cuBLASLt (cublaslt_product.cpp), or on the
// emulated device the CPU's own products (emulated_product.cpp). The build has one of them.
#pragma once

#include <optional>

#include "kernels/matmul/gemm.h"
#include "kernels/matmul/matmul_choices.h"

namespace ds::kernels::detail {

// Gives the product to the stream's queue and returns it with what is left for kernels to do of its
// epilogue and of its backward; nothing is given on meta. Unsupported where the library has no such
// product.
Gemm library_product(Stream& stream, const Gemm& gemm);

// What chooses among the library's algorithms (matmul_place()).
std::optional<MatmulPlace> product_place(Device device);

// Bytes of the scratch memory that the library wants.
int64_t product_scratch_bytes();
// That memory, which the stream has from the first call on; undefined where it is none.
const Tensor& product_scratch(Stream& stream);

}  // namespace ds::kernels::detail
