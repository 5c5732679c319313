#include "zero/quantized_reduce.h"

#include "kernels/elementwise.h"

namespace ds {
namespace {

constexpr int kGradientBits = 4;

}  // namespace

void QuantizedReduce::reduce_scatter(const Tensor& full, Tensor& slice) {
  const SliceFormat format{.bits = kGradientBits, .numel = slice.numel()};
  const int64_t slices = int64_t{near_.size()} * far_.size();
  CodeWork work(slots_, stream_, format, slices);
  kernels::IntCodes sent = work.take(slices), received = work.take(slices);
  quantize(work, format, full, sent);
  const bool both = near_.size() > 1 && far_.size() > 1;
  Communicator& first = near_.size() > 1 ? near_ : far_;
  exchange(first, sent, received);
  if (both) {
    const kernels::IntCodes sums = slices_of(sent, format, 0, far_.size());
    kernels::IntCodes of_others = slices_of(received, format, 0, far_.size());
    work.sum(received, near_.size(), sums);
    exchange(far_, sums, of_others);
  }
  work.give_back(sent);
  add_up(work, format, received, both ? far_.size() : first.size(), slice);
  work.give_back(received);
}

// All slices of one neighbour after those of another: theirs are `near_.size()` apart.
void QuantizedReduce::quantize(CodeWork& work, const SliceFormat& format, const Tensor& full,
                               const kernels::IntCodes& codes) {
  const int near = near_.size(), far = far_.size();
  if (near == 1 || far == 1) return work.quantize(full, codes);
  for (int to = 0; to < near; ++to) {
    for (int place = 0; place < far; ++place) {
      const int64_t slice = int64_t{place} * near + to;
      work.quantize(full.narrow(slice * format.numel, format.numel),
                    slices_of(codes, format, int64_t{to} * far + place, 1));
    }
  }
}

void QuantizedReduce::exchange(Communicator& with, const kernels::IntCodes& sent,
                               kernels::IntCodes& received) {
  with.all_to_all(sent.q, received.q, stream_);
  with.all_to_all(sent.scale, received.scale, stream_);
}

void QuantizedReduce::add_up(CodeWork& work, const SliceFormat& format,
                             const kernels::IntCodes& codes, int ranks, Tensor& slice) {
  const bool in_place = slice.dtype() == DType::kF32;
  Tensor sum = in_place ? slice : slots_.take(format.numel, DType::kF32, stream_);
  Tensor one = slots_.take(format.numel, DType::kF32, stream_);
  work.dequantize(slices_of(codes, format, 0, 1), sum);
  for (int rank = 1; rank < ranks; ++rank) {
    work.dequantize(slices_of(codes, format, rank, 1), one);
    kernels::accumulate(stream_, one, sum);
  }
  slots_.give_back(one, stream_);
  if (in_place) return;
  kernels::cast(stream_, sum, slice);
  slots_.give_back(sum, stream_);
}

}  // namespace ds
