// Newton-Schulz iterations (kernels/optimizer/newton_schulz.h) by the CPU's bf16 products. Matrices
// stay packed between products, so that nothing is converted on the way; of a symmetric result only
// half is computed; what is added to a product is added while it is still fp32. Only where
// has_bf16_dots().
#pragma once

#include "core/device/stream.h"
#include "core/device/tensor.h"
#include "kernels/optimizer/newton_schulz_form.h"

namespace ds::kernels::detail {

// From this smaller side on; below, most of a block of 64 would be padding.
inline constexpr int64_t kBf16IterationSide = 64;

// Whether this CPU has products in bf16 that are faster than fp32's.
bool makes_bf16_iterations();

// Numbers of bf16 that an iteration over a matrix needs beside it.
int64_t bf16_iteration_numel(int64_t rows, int64_t columns);

struct Bf16Iteration {
  Tensor x;        // bf16 [rows * columns], replaced by its orthogonal factor
  Tensor squares;  // fp64 [1]: the sum of x's squares
  Tensor room;     // bf16, bf16_iteration_numel() or more
  int64_t rows = 0, columns = 0;
};
OpCost bf16_iteration_cost(NewtonSchulzForm form, const Bf16Iteration& args);

void bf16_iteration_standard(Stream& stream, const Bf16Iteration& args);
void bf16_iteration_gram(Stream& stream, const Bf16Iteration& args);

}  // namespace ds::kernels::detail
