#include "zero/reduce/bucket_sink.h"

#include <utility>

#include "core/status/error.h"
#include "kernels/reduce/reduce.h"

namespace ds {

BucketSink::BucketSink(SinkParts parts)
    : parts_(std::move(parts)), reduced_at_(parts_.layout.buckets().size()) {}

void BucketSink::begin_step(GradientsOf gradients) {
  DS_CHECK(gradients == GradientsOf::kAllRanks,
           "gradients: a step with those of one rank, where all are reduced");
  period().begin_step();
}

Tensor BucketSink::view(const Tensor& whole, int param, const Shape& shape) const {
  return whole.narrow(parts_.layout.offset_of(param), shape.numel()).reshape(shape);
}

GradSlot BucketSink::slot(int param, const Shape& shape) {
  const int bucket = parts_.layout.bucket_of(param);
  if (period().opens(bucket)) {
    streams().compute_after(nth(reduced_at_, bucket));
    if (memory().open(bucket)) begin(bucket);
  }
  const bool overwrites = period().is_first(param) && starts_anew();
  return {.grad = view(whole(bucket), param, shape),
          .write = overwrites ? kernels::Write::kOverwrite : kernels::Write::kAccumulate};
}

void BucketSink::begin(int bucket) {
  clear_gaps(layout_of(bucket), whole(bucket), streams().compute);
}

void BucketSink::ready(int param) {
  if (period().is_due(param)) complete(parts_.layout.bucket_of(param));
}

void BucketSink::forget_events() {
  for (PeerPoint& point : reduced_at_) point = {};
}

Tensor BucketSink::summed(int param, const Shape& shape) const {
  period().require_sum(param);
  return view(whole(parts_.layout.bucket_of(param)), param, shape);
}

void BucketSink::end_step() {
  const bool all_due = period().end_step();
  streams().peers.wait(streams().compute.mark());
  for (int b = 0; b < buckets(); ++b) {
    if (all_due) complete(b);
    finish(b);
  }
  streams().compute.wait(streams().peers.mark());
}

void BucketSink::sum_over_others(Tensor slice) const {
  for (Communicator* const others : parts_.others) {
    others->all_reduce(slice, ReduceOp::kSum, streams().peers);
  }
}

void BucketSink::add_squares(const std::vector<Tensor>& of, const Tensor& total) const {
  for (const Tensor& slice : of) {
    kernels::sum_of_squares_into(streams().compute, slice, kernels::Write::kAccumulate, total);
  }
}

void SendingSink::complete(int bucket) {
  streams().peers.wait(streams().compute.mark());
  send(bucket);
  read_until(bucket, streams().mark_peers());
  memory().close(bucket, streams().peers);
}

}  // namespace ds
