// Several tensors in one collective.
#include "tests/conform/coalesced.h"

#include "core/values/partition.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {

std::vector<Tensor> reduce_scatter_coalesced(Communicator& comm, std::span<const Tensor> tensors,
                                             ReduceOp op, Stream& stream) {
  std::vector<Tensor> results;
  if (tensors.empty()) return results;
  const int ranks = comm.size();
  const DType dtype = tensors.front().dtype();
  int64_t shard_numel = 0;
  for (const Tensor& tensor : tensors) {
    DS_CHECK(tensor.dtype() == dtype, "reduce_scatter_coalesced: dtypes {} and {} in one call",
             name_of(dtype), name_of(tensor.dtype()));
    shard_numel += ceil_piece(tensor.numel(), ranks, 0).numel;
  }
  // Padding takes part in the sum, so it must be a number.
  Tensor full = Tensor::zeros({shard_numel * ranks}, dtype, stream, MemoryTag::kBuckets);
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t at = shard_numel * rank;
    for (const Tensor& tensor : tensors) {
      const PartRange piece = ceil_piece(tensor.numel(), ranks, rank);
      if (piece.numel > 0) {
        Tensor into = full.narrow(at, piece.numel);
        kernels::cast(stream, tensor.narrow(piece.offset, piece.numel), into);
      }
      at += ceil_piece(tensor.numel(), ranks, 0).numel;
    }
  }
  Tensor shard = full.narrow(shard_numel * comm.rank(), shard_numel);
  comm.reduce_scatter(full, shard, op, stream);
  int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    const PartRange piece = ceil_piece(tensor.numel(), ranks, comm.rank());
    results.push_back(piece.numel > 0 ? shard.narrow(at, piece.numel) : Tensor());
    at += ceil_piece(tensor.numel(), ranks, 0).numel;
  }
  return results;
}

}  // namespace ds
