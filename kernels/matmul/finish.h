// What a library has left of a product to do.
#pragma once

#include "kernels/matmul/gemm.h"

namespace ds::kernels::detail {

// Finishes the product that lies in gemm.c already: pre_activation = c + bias, c = activation(c +
// bias).
void finish_product(Stream& stream, const Gemm& gemm);

}  // namespace ds::kernels::detail
