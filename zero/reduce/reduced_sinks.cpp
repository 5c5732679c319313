#include "zero/reduce/reduced_sinks.h"

#include "kernels/elementwise/elementwise.h"

namespace ds {

void SlicedSink::send(int bucket) {
  const bool first = period().begins_sum();
  const Tensor from = wire_->sent(whole(bucket));
  const Tensor slice = nth(sums_.slices, bucket);
  if (from.dtype() == sums_.dtype || sums_.dtype != DType::kF32) {
    const Tensor place = wire_->own(from);
    wire_->reduce_scatter(bucket, from, place);
    if (!place.aliases(slice)) {
      give(streams(), first ? kernels::cast : kernels::accumulate, place, slice);
    }
  } else if (period().reductions() == 1) {
    wire_->reduce_scatter(bucket, from, slice);
  } else {  // the first micro-step takes what the later ones need: all take the same places
    Tensor sum = slots().take(slice.numel(), sums_.dtype, streams().peers);
    wire_->reduce_scatter(bucket, from, first ? slice : sum);
    if (!first) give(streams(), kernels::accumulate, sum, slice);
    slots().give_back(sum, streams().peers);
  }
}

void WholeSink::finish(int bucket) {
  SlicedSink::finish(bucket);
  wire().gather(nth(slices(), bucket), nth(wholes(), bucket));
}

}  // namespace ds
