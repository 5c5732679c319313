#include "zero/grad_reducer.h"

#include <utility>

#include "core/index.h"
#include "kernels/elementwise.h"

namespace ds {

GradReducer::GradReducer(const GradOptions& options, const BucketLayout& layout,
                         std::vector<int> uses, Communicator& comm, Stream& stream,
                         MemoryResource& memory)
    : options_(options),
      layout_(layout),
      uses_(std::move(uses)),
      comm_(comm),
      stream_(stream),
      memory_(memory),
      states_(layout.buckets().size()),
      written_(uses_.size(), 0) {
  const bool keeps_whole = options_.sharding == Sharding::kWhole || direct();
  for (int b = 0; b < narrow<int>(states_.size()); ++b) {
    State& state = nth(states_, b);
    if (keeps_whole) state.whole = new_whole(b, MemoryTag::kGradients);
    const int64_t numel = layout_.slice_numel(b);
    const bool shares =
        keeps_whole &&
        (direct() || (options_.micro_steps == 1 && options_.dtype == options_.slice_dtype));
    if (direct() || options_.state == Sharding::kWhole) {
      state.reduced = direct() || options_.dtype == options_.slice_dtype
                          ? state.whole
                          : Tensor::zeros({numel * comm_.size()}, options_.slice_dtype, stream_,
                                          MemoryTag::kGradients);
    }
    if (shares) {
      state.slice = state.whole.narrow(comm_.rank() * numel, numel);
    } else if (state.reduced.defined() && !state.reduced.aliases(state.whole)) {
      state.slice = state.reduced.narrow(comm_.rank() * numel, numel);
    } else {
      state.slice = Tensor::zeros({numel}, options_.slice_dtype, stream_, MemoryTag::kGradients);
    }
  }
}

// Padding between parameters must be zero: it takes part in norms and updates.
Tensor GradReducer::new_whole(int bucket, MemoryTag tag) {
  const Bucket& layout = nth(layout_.buckets(), bucket);
  const MemoryScope scope(stream_, memory_);
  const DType dtype = direct() ? options_.slice_dtype : options_.dtype;
  Tensor whole = Tensor::empty({layout.numel}, dtype, stream_, tag);
  int64_t end = 0;
  const auto clear_up_to = [&](int64_t begin) {
    if (begin > end) {
      Tensor gap = whole.narrow(end, begin - end);
      kernels::fill(stream_, gap, 0.0F);
    }
  };
  for (const BucketParam& at : layout.params) {
    clear_up_to(at.offset);
    end = at.offset + at.numel;
  }
  clear_up_to(layout.numel);
  return whole;
}

void GradReducer::begin_step() { micro_step_ = 0; }

GradSlot GradReducer::slot(int param, const Shape& shape) {
  const int bucket = layout_.bucket_of(param);
  State& state = nth(states_, bucket);
  if (state.contributions == 0) {
    for (const BucketParam& at : nth(layout_.buckets(), bucket).params) {
      state.contributions += nth(uses_, at.param);
    }
    if (!state.whole.defined()) state.whole = new_whole(bucket, MemoryTag::kBuckets);
  }
  const bool first = nth(written_, param)++ == 0;
  const bool fresh = first && !(direct() && micro_step_ > 0);
  return {.grad = state.whole.narrow(layout_.offset_of(param), shape.numel()).reshape(shape),
          .write = fresh ? kernels::Write::kOverwrite : kernels::Write::kAccumulate};
}

void GradReducer::ready(int param) {
  const int bucket = layout_.bucket_of(param);
  State& state = nth(states_, bucket);
  DS_CHECK(state.contributions > 0 && nth(written_, param) <= nth(uses_, param),
           "gradient of parameter {}: more contributions than the {} announced", param,
           nth(uses_, param));
  if (--state.contributions == 0) reduce(bucket);
}

void GradReducer::reduce(int bucket) {
  if (direct()) return;
  State& state = nth(states_, bucket);
  const int64_t numel = layout_.slice_numel(bucket);
  const bool first = micro_step_ == 0;
  if (options_.dtype == options_.slice_dtype) {
    Tensor place = state.whole.narrow(comm_.rank() * numel, numel);
    comm_.reduce_scatter(state.whole, place, ReduceOp::kSum, stream_);
    if (!place.aliases(state.slice)) {
      first ? kernels::cast(stream_, place, state.slice)
            : kernels::accumulate(stream_, place, state.slice);
    }
  } else if (first) {
    comm_.reduce_scatter(state.whole, state.slice, ReduceOp::kSum, stream_);
  } else {
    const MemoryScope scope(stream_, memory_);
    Tensor sum = Tensor::empty({numel}, options_.slice_dtype, stream_, MemoryTag::kBuckets);
    comm_.reduce_scatter(state.whole, sum, ReduceOp::kSum, stream_);
    kernels::accumulate(stream_, sum, state.slice);
  }
  if (options_.sharding == Sharding::kSharded) state.whole = Tensor();
}

void GradReducer::end_micro_step() {
  for (size_t param = 0; param < written_.size(); ++param) {
    DS_CHECK(written_[param] == uses_[param],
             "gradient of parameter {}: {} contributions in this micro-step, expected {}", param,
             written_[param], uses_[param]);
    written_[param] = 0;
  }
  if (++micro_step_ < options_.micro_steps || direct() || options_.state == Sharding::kSharded) {
    return;
  }
  for (int b = 0; b < narrow<int>(states_.size()); ++b) {
    State& state = nth(states_, b);
    const int64_t numel = layout_.slice_numel(b);
    Tensor place = state.reduced.narrow(comm_.rank() * numel, numel);
    if (!place.aliases(state.slice)) kernels::cast(stream_, state.slice, place);
    comm_.all_gather(place, state.reduced, stream_);
  }
}

}  // namespace ds
