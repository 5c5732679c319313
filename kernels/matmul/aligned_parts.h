// Parts of a product whose extents are odd (pure). A GPU's library has its fast kernels only for
// operands whose rows begin at 16 bytes and have whole packs of 16 bytes: products with GPT-2's
// vocabulary of 50257 take five times as long as those with 50256 and with what is left together
// (docs/measurements/2026-11-27-gpu.md).
#pragma once

#include <vector>

#include "kernels/matmul/gemm.h"

namespace ds::kernels::detail {

// Products that make `gemm` when they run in this order: extents that lie along rows in memory are
// cut into the multiple of a pack and the rest. The product itself where cutting it is worth
// nothing: its extents are whole packs or small, its operands do not begin at 16 bytes, or it has
// an epilogue. If the sum over k is cut, the rest comes first, rounded to the dtype of c, so that
// the sum of all other terms is rounded once, as it would be in one product.
std::vector<Gemm> aligned_parts(const Gemm& gemm);

}  // namespace ds::kernels::detail
