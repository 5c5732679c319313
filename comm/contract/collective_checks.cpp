#include "comm/contract/collective_checks.h"

#include "comm/contract/rank_order_reduce.h"

namespace ds::detail {

void check_all_gather(const Tensor& shard, const Tensor& full, int size) {
  DS_CHECK(full.numel() == shard.numel() * size && full.dtype() == shard.dtype(),
           "all_gather: full has {} elements of {}, expected {} of {} (shard of {} times {} ranks)",
           full.numel(), name_of(full.dtype()), shard.numel() * size, name_of(shard.dtype()),
           shard.numel(), size);
}

void check_reduce_scatter(const Tensor& full, const Tensor& shard, int size) {
  DS_CHECK(full.numel() == shard.numel() * size,
           "reduce_scatter: full has {} elements, expected {} (shard of {} times {} ranks)",
           full.numel(), shard.numel() * size, shard.numel(), size);
  check_reduce_types({full.dtype(), shard.dtype(), ReduceOp::kSum});
}

void check_all_to_all(const Tensor& in, const Tensor& out, int size) {
  DS_CHECK(
      in.numel() == out.numel() && in.dtype() == out.dtype() && in.numel() % size == 0,
      "all_to_all: in has {} elements of {}, out {} of {}; expected equal, and a multiple of {}",
      in.numel(), name_of(in.dtype()), out.numel(), name_of(out.dtype()), size);
  DS_CHECK(!in.aliases(out) || in.numel() == 0 || size == 1, "all_to_all: in and out are the same");
}

void check_root(int root, int size) {
  DS_CHECK(root >= 0 && root < size, "broadcast: root {} of a group of {} ranks", root, size);
}

void check_peer(const char* op, int rank, int peer, int size) {
  DS_CHECK(peer >= 0 && peer < size && peer != rank,
           "{}: peer {} of rank {} in a group of {}; expected another rank of the group", op, peer,
           rank, size);
}

}  // namespace ds::detail
