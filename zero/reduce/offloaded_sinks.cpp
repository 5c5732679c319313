#include "zero/reduce/offloaded_sinks.h"

#include "core/status/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce.h"

namespace ds {

StoredSums::StoredSums(OptimizerStateStore& state, int buckets, StoreStreams streams,
                       BucketSlots& slots)
    : state_(state),
      streams_(streams),
      slots_(slots),
      squares_(Tensor::zeros({buckets}, DType::kF64, streams_.compute, MemoryTag::kGradients)) {}

void StoredSums::store(int bucket, const Tensor& sum, bool completes) {
  if (!completes) return state_.store_gradient(bucket, sum, streams_.peers);
  {
    const MemoryScope scope(streams_.peers, slots_.memory());  // no memory of a micro-step
    kernels::sum_of_squares_into(streams_.peers, sum, kernels::Write::kOverwrite,
                                 squares_.narrow(bucket, 1));
  }
  state_.store_final_gradient(bucket, sum, streams_.peers);
}

void StoredSums::add_squares(const Tensor& total) const {
  kernels::add_in_order(streams_.compute, squares_, total);
}

Tensor OffloadedSink::gradient(int bucket) const {
  throw InternalError(fmt::format(
      "gradients: the sum of bucket {} is kept by who keeps the optimizer's state", bucket));
}

// The same sums in the same order, in buffers that come and go. All micro-steps take the same ones.
void OffloadedSliceSink::send(int bucket) {
  const Tensor from = wire_->sent(whole(bucket));
  const bool widens = from.dtype() != dtype_ && dtype_ == DType::kF32;
  Tensor place =
      widens ? slots().take(slice_numel(bucket), dtype_, streams().peers) : wire_->own(from);
  wire_->reduce_scatter(bucket, from, place);
  sum_over_others(place);
  if (period().reductions() == 1 && place.dtype() == dtype_) {
    sums().store(bucket, place, true);
  } else {
    add_to_sum(bucket, place);
  }
  if (widens) slots().give_back(place, streams().peers);
}

void OffloadedSliceSink::add_to_sum(int bucket, const Tensor& place) {
  Tensor sum = slots().take(place.numel(), dtype_, streams().peers);
  if (period().begins_sum()) {
    kernels::cast(streams().peers, place, sum);
  } else {
    sums().load(bucket, sum, streams().peers);
    kernels::accumulate(streams().peers, place, sum);
  }
  sums().store(bucket, sum, period().completes_sum());
  slots().give_back(sum, streams().peers);
}

void OffloadedLocalSink::send(int bucket) {
  if (!period().completes_sum()) return;
  sum_over_others(whole(bucket));
  sums().store(bucket, whole(bucket), true);
}

void OffloadedLentSink::begin(int bucket) {
  if (period().begins_sum()) return BucketSink::begin(bucket);
  sums().load(bucket, whole(bucket), streams().compute);  // to be added to; gaps are zero there
}

}  // namespace ds
