// Which way tensors of CUDA devices take between ranks (pure): what every rank knows of itself
// decides alike on all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/sections/training.h"

namespace ds {

enum class TensorPath : uint8_t {
  kAlone,   // one rank: copies on its device
  kNccl,    // from GPU to GPU
  kStaged,  // through pinned memory and the group of the hosts
};

// What a rank says of itself; travels as it is.
struct TensorFacts {
  uint64_t gpu = 0;  // equal for ranks on one host that compute on the same one
  bool has_nccl = false;
};

// What the configuration asks for.
enum class NcclWish : uint8_t { kIfPossible, kRequired, kNever };
NcclWish nccl_wish(CommunicationBackend asked);

struct TensorPathChoice {
  TensorPath path = TensorPath::kAlone;
  std::string why;  // why not by NCCL, where that could have been; else empty
};
// Unsupported where NCCL is required and cannot be had, naming the ranks. `own_lack`: why this rank
// has no NCCL, where it has none.
TensorPathChoice choose_tensor_path(NcclWish wish, std::span<const TensorFacts> ranks,
                                    const std::string& own_lack);

}  // namespace ds
