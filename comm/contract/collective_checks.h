// What a caller can get wrong in a collective, checked alike by every transport before it moves a
// byte.
#pragma once

#include "comm/contract/communicator.h"

namespace ds::detail {

void check_all_gather(const Tensor& shard, const Tensor& full, int size);
void check_reduce_scatter(const Tensor& full, const Tensor& shard, int size);
void check_all_to_all(const Tensor& in, const Tensor& out, int size);
void check_root(int root, int size);
// `op` is "send" or "recv"; a rank does not talk to itself.
void check_peer(const char* op, int rank, int peer, int size);

}  // namespace ds::detail
