// Products of the rows of each expert with its own matrix, without padding (Gale et al., arXiv
// 2211.15841). Rows lie in the order of experts (kernels/moe/expert_order.h); where those of an
// expert begin is known on the device only. Sums are in fp32; the bits of an expert's results
// depend on its own rows and matrix alone. An expert whose offsets descend or go beyond the rows is
// an error of the CPU; a CUDA device takes it for one without rows and says
// DeviceFlag::kPlaceOutsideRows.
#pragma once

#include "kernels/moe/grouped_matmul_operands.h"

namespace ds::kernels {

// rows [M, K] -> out [M, N]: out[i] = rows[i] * op(weight of the expert of row i). Rows of `out`
// behind those of the last expert become 0. With matrices as layers store them this is the forward
// pass, and with the other transposition the gradient of its input.
void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args);

// out[e] = (or +=) a_e^T * b_e over the rows of expert e; 0, or what was there, for an expert
// without rows. That is the gradient of [experts, N, K] with a the gradient of a layer's output and
// b its input, and of [experts, K, N] the other way round.
void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& args);

}  // namespace ds::kernels
