// The sum of a bucket's gradients over all ranks, sent as int4 codes in two hops (qgZ of ZeRO++,
// arXiv 2306.10209): among neighbours, who add up what they have of the same elements and make
// codes of the sums; then among the ranks at the same place of other neighbourhoods, who add these
// up in fp32. Each number is made a code at most twice, whatever the number of ranks, and between
// neighbourhoods a quarter of 16-bit gradients travels.
//
// Neighbours are numbered one after the other among all ranks, so that what one of them answers for
// lies apart in the bucket: slices are put in the order of the first hop when codes are made.
#pragma once

#include "comm/communicator.h"
#include "zero/slice_codes.h"

namespace ds {

class QuantizedReduce {
 public:
  // near: neighbours; far: those at the same place among theirs. Rank = far * near.size() + near.
  // All of these must outlive it.
  QuantizedReduce(Communicator& near, Communicator& far, StoreStreams streams, BucketSlots& slots)
      : near_(near), far_(far), stream_(streams.peers), slots_(slots) {}

  // This rank's slice of the sum; it may lie in `full`, which is left undefined elsewhere.
  void reduce_scatter(const Tensor& full, Tensor& slice);

 private:
  void quantize(CodeWork& work, const SliceFormat& format, const Tensor& full,
                const kernels::IntCodes& codes);
  void exchange(Communicator& with, const kernels::IntCodes& sent, kernels::IntCodes& received);
  // Of what so many ranks have sent, one slice each.
  void add_up(CodeWork& work, const SliceFormat& format, const kernels::IntCodes& codes, int ranks,
              Tensor& slice);

  Communicator& near_;
  Communicator& far_;
  Stream& stream_;
  BucketSlots& slots_;
};

}  // namespace ds
