// Several small tensors in one collective: their pieces are laid side by side per rank, so that one
// message replaces many. The tensors may be of different sizes; pieces are padded in the buffer,
// never in the result.
#pragma once

#include <span>
#include <vector>

#include "comm/contract/communicator.h"

namespace ds {

// Every tensor is cut into size() pieces of ceil(numel / size()) elements (core/values/partition.h,
// ceil_piece); rank r receives piece r of each, reduced over all ranks. The last pieces are shorter
// or empty; an empty piece comes back as an undefined Tensor. All tensors have one dtype and lie on
// the stream's device; they are not changed.
std::vector<Tensor> reduce_scatter_coalesced(Communicator& comm, std::span<const Tensor> tensors,
                                             ReduceOp op, Stream& stream);

}  // namespace ds
