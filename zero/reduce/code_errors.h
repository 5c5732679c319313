// What the codes of gradients have lost on one rank, of one bucket at one hop of a reduction, as a
// moving average (LoCo, Xie et al., arXiv 2407.04480): added to the numbers of which codes are made
// next. Kept as codes of 8 bits, because it is as many numbers as the whole bucket has.
#pragma once

#include "zero/reduce/slice_codes.h"

namespace ds {

class CodeErrors {
 public:
  // Keeps the errors of so many slices, which are sent in this format. They begin as zeros, in
  // memory of the stream that computes.
  CodeErrors(const SliceFormat& sent, int64_t slices, float beta, Stream& compute);

  // Makes codes of slice `slice`, plus its error, and keeps what they lose. work: of these codes.
  void quantize(BucketSlots& slots, const StoreStreams& streams, CodeWork& work, int64_t slice,
                const Tensor& x, const kernels::IntCodes& codes);
  void clear(Stream& stream);
  kernels::IntCodes& kept() { return kept_; }

 private:
  const SliceFormat format_;  // of what is kept
  const float beta_;
  kernels::IntCodes kept_;
};

}  // namespace ds
