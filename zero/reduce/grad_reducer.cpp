#include "zero/reduce/grad_reducer.h"

#include <algorithm>
#include <utility>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce.h"
#include "zero/reduce/quantized_reduce.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {

GradReducer::GradReducer(const GradOptions& options, const BucketLayout& layout,
                         std::vector<int> uses, GradPlace place)
    : options_(options),
      layout_(layout),
      uses_(std::move(uses)),
      comm_(place.peers.shard),
      summed_(std::move(place.peers.summed)),
      quantized_(place.peers.quantized),
      streams_(place.streams),
      slots_(place.slots),
      exchange_(comm_, options_.rows, options_.wire_dtype, streams_, slots_),
      touched_(uses_.size()),
      states_(layout.buckets().size()),
      written_(uses_.size(), 0) {
  refuse_what_cannot_be();
  make_wire();
  for (int b = 0; b < narrow<int>(states_.size()); ++b) {
    if (keeps_whole()) nth(states_, b).whole = kept_whole(b);
    if (!options_.offloaded) make_slice(b);
  }
  if (options_.offloaded) {
    squares_ = Tensor::zeros({narrow<int64_t>(states_.size())}, DType::kF64, streams_.compute,
                             MemoryTag::kGradients);
  }
}

// Alone, micro-batches are added up in whole buckets; if sums are kept elsewhere, these come and
// go.
bool GradReducer::keeps_whole() const {
  return options_.sharding == Sharding::kWhole || (accumulates() && !options_.offloaded);
}

void GradReducer::make_slice(int bucket) {
  State& state = nth(states_, bucket);
  const int64_t numel = layout_.slice_numel(bucket);
  const bool shares =
      keeps_whole() &&
      (accumulates() || (options_.micro_steps == 1 && options_.dtype == options_.slice_dtype));
  if (is_alone() || options_.state == Sharding::kWhole) {
    // Rows are added up where their sums are to stay, and `whole` is of one micro-step.
    const bool adds_rows = exchanges_rows() && options_.micro_steps > 1;
    state.reduced = accumulates() || (options_.dtype == options_.slice_dtype && !adds_rows)
                        ? state.whole
                        : Tensor::zeros({numel * comm_.size()}, options_.slice_dtype,
                                        streams_.compute, MemoryTag::kGradients);
  }
  if (shares) {
    state.slice = state.whole.narrow(comm_.rank() * numel, numel);
  } else if (state.reduced.defined() && !state.reduced.aliases(state.whole)) {
    state.slice = state.reduced.narrow(comm_.rank() * numel, numel);
  } else {
    state.slice =
        Tensor::zeros({numel}, options_.slice_dtype, streams_.compute, MemoryTag::kGradients);
  }
}

void GradReducer::make_wire() {
  if (!options_.wire_dtype || is_alone()) return;
  int64_t largest = 0;
  for (const Bucket& bucket : layout_.buckets()) largest = std::max(largest, bucket.numel);
  const MemoryScope scope(streams_.compute, slots_.memory());
  wire_ = Tensor::empty({largest}, *options_.wire_dtype, streams_.compute, MemoryTag::kBuckets);
}

Tensor GradReducer::sent(const Tensor& whole) const {
  if (!wire_.defined() || wire_.dtype() == whole.dtype()) return whole;
  Tensor copy = wire_.narrow(0, whole.numel());
  give(streams_, kernels::cast, whole, copy);
  return copy;
}

void GradReducer::reduce_scatter(int bucket, const Tensor& from, const Tensor& slice) {
  if (quantized_ != nullptr) return quantized_->reduce_scatter(bucket, from, slice);
  const auto sum = [this](Stream& on, const Tensor& all, Tensor& own) {
    comm_.reduce_scatter(all, own, ReduceOp::kSum, on);
  };
  give(streams_, sum, from, slice);
}

void GradReducer::refuse_what_cannot_be() const {
  DS_CHECK(quantized_ == nullptr || options_.sharding == Sharding::kSharded,
           "gradients: those that are kept whole are not quantized");
  const bool sums_elsewhere = !summed_.empty() && options_.reduce == Reduce::kEachMicroStep;
  if (options_.offloaded && (options_.reduce == Reduce::kIfAsked || sums_elsewhere)) {
    throw Unsupported(
        "zero: gradients of offloaded optimizer state are reduced after each micro-step within one "
        "group of ranks, or at the step's end; 1-bit optimizers and MiCS keep it on the device");
  }
  DS_CHECK(!options_.rows.any() || (options_.reduce == Reduce::kEachMicroStep && summed_.empty() &&
                                    options_.state == Sharding::kWhole),
           "gradients: rows of tables are exchanged after each micro-step, of whole state, within "
           "one group of ranks");
  if (options_.reduce == Reduce::kEachMicroStep || is_alone()) return;
  if (options_.sharding == Sharding::kSharded) {
    throw Unsupported(
        "zero: sharded gradients (stages 2 and 3) are reduced after each micro-step, because no "
        "rank keeps them whole until the end of the step; use stage 0 or 1");
  }
  if (options_.reduce == Reduce::kIfAsked &&
      (options_.state == Sharding::kSharded || !summed_.empty())) {
    throw Unsupported(
        "zero: an optimizer that exchanges gradients itself needs its whole state on every rank, "
        "and one group to exchange them in; use stage 0 without mics_shard_size");
  }
}

int GradReducer::expected(int param) const {
  return nth(uses_, param) * (options_.reduce == Reduce::kEachMicroStep ? 1 : options_.micro_steps);
}

Tensor GradReducer::kept_whole(int bucket) {
  const MemoryScope scope(streams_.compute, slots_.memory());
  // Backward passes write their own dtype or fp32.
  const bool widens = accumulates() && options_.slice_dtype == DType::kF32;
  const DType dtype = widens ? DType::kF32 : options_.dtype;
  Tensor whole = Tensor::empty({nth(layout_.buckets(), bucket).numel}, dtype, streams_.compute,
                               MemoryTag::kGradients);
  clear_gaps(bucket, whole);
  return whole;
}

// Padding between parameters must be zero: it takes part in norms and updates.
void GradReducer::clear_gaps(int bucket, Tensor& whole) {
  const Bucket& layout = nth(layout_.buckets(), bucket);
  int64_t end = 0;
  const auto clear_up_to = [&](int64_t begin) {
    if (begin > end) {
      Tensor gap = whole.narrow(end, begin - end);
      kernels::fill(streams_.compute, gap, 0.0F);
    }
  };
  for (const BucketParam& at : layout.params) {
    clear_up_to(at.offset);
    end = at.offset + at.numel;
  }
  clear_up_to(layout.numel);
}

void GradReducer::begin_step(GradientsOf gradients) {
  DS_CHECK(gradients == GradientsOf::kAllRanks || options_.reduce == Reduce::kIfAsked,
           "gradients: a step with those of one rank, where all are reduced");
  micro_step_ = 0;
  gradients_ = gradients;
  // Counts may be left of a step that was not ended, as the dry run's are not.
  std::ranges::fill(written_, 0);
  for (State& state : states_) state.contributions = 0;
}

Tensor GradReducer::summed(int param, const Shape& shape) const {
  DS_CHECK(accumulates(), "gradient of parameter {}: no sum over micro-steps is kept", param);
  return view(nth(states_, layout_.bucket_of(param)).whole, param, shape);
}

Tensor GradReducer::view(const Tensor& whole, int param, const Shape& shape) const {
  return whole.narrow(layout_.offset_of(param), shape.numel()).reshape(shape);
}

GradSlot GradReducer::slot(int param, const Shape& shape) {
  const int bucket = layout_.bucket_of(param);
  State& state = nth(states_, bucket);
  if (state.contributions == 0) {
    streams_.compute_after(state.reduced_at);
    for (const BucketParam& at : nth(layout_.buckets(), bucket).params) {
      state.contributions += expected(at.param);
    }
    if (!state.whole.defined()) state.whole = take_whole(bucket);
  }
  const bool first = nth(written_, param)++ == 0;
  // Alone, a period is a micro-step, and the memory is that of the whole step.
  const bool continues = options_.reduce == Reduce::kEachMicroStep && is_alone() && micro_step_ > 0;
  const bool fresh = first && !continues;
  return {.grad = view(state.whole, param, shape),
          .write = fresh ? kernels::Write::kOverwrite : kernels::Write::kAccumulate};
}

Tensor GradReducer::take_whole(int bucket) {
  const int64_t numel = nth(layout_.buckets(), bucket).numel;
  Tensor whole =
      slots_.take(numel, accumulates() ? options_.slice_dtype : options_.dtype, streams_.compute);
  if (is_alone() && micro_step_ > 0) {
    state_->load_gradient(bucket, whole, streams_.compute);  // to be added to; gaps are zero there
  } else {
    clear_gaps(bucket, whole);
  }
  return whole;
}

void GradReducer::ready(int param) {
  const int bucket = layout_.bucket_of(param);
  State& state = nth(states_, bucket);
  DS_CHECK(state.contributions > 0 && nth(written_, param) <= expected(param),
           "gradient of parameter {}: more contributions than the {} announced", param,
           expected(param));
  if (--state.contributions == 0 && options_.reduce == Reduce::kEachMicroStep) reduce(bucket);
}

void GradReducer::rows_touched(int param, const Tensor& order) {
  if (exchanges_rows()) nth(touched_, param) = exchange_.list(order);
}

void GradReducer::reduce(int bucket) {
  if (is_alone() && !options_.offloaded) return;
  State& state = nth(states_, bucket);
  streams_.peers.wait(streams_.compute.mark());
  if (exchanges_rows()) {
    reduce_rows(bucket);
  } else if (!options_.offloaded) {
    reduce_kept(bucket);
  } else if (is_alone()) {
    hand_over_alone(bucket);
  } else {
    hand_over(bucket);
  }
  state.reduced_at = streams_.mark_peers();
  if (!keeps_whole()) slots_.give_back(state.whole, streams_.peers);
}

void GradReducer::reduce_kept(int bucket) {
  State& state = nth(states_, bucket);
  const int64_t numel = layout_.slice_numel(bucket);
  const bool first = begins_sum();
  const Tensor from = sent(state.whole);
  if (from.dtype() == options_.slice_dtype || options_.slice_dtype != DType::kF32) {
    const Tensor place = from.narrow(comm_.rank() * numel, numel);
    reduce_scatter(bucket, from, place);
    if (!place.aliases(state.slice)) {
      give(streams_, first ? kernels::cast : kernels::accumulate, place, state.slice);
    }
  } else if (options_.micro_steps == 1 || options_.reduce != Reduce::kEachMicroStep) {
    reduce_scatter(bucket, from, state.slice);
  } else {  // the first micro-step takes what the later ones need: all take the same places
    Tensor sum = slots_.take(numel, options_.slice_dtype, streams_.peers);
    reduce_scatter(bucket, from, first ? state.slice : sum);
    if (!first) give(streams_, kernels::accumulate, sum, state.slice);
    slots_.give_back(sum, streams_.peers);
  }
}

// The first micro-step of several clears what rows of the later are added to; where sums stay in
// `whole`, every row that this rank does not touch is zero already.
void GradReducer::reduce_rows(int bucket) {
  State& state = nth(states_, bucket);
  const bool apart = !state.reduced.aliases(state.whole);
  if (apart && micro_step_ == 0) kernels::fill(streams_.peers, state.reduced, 0.0F);
  const int64_t columns = options_.rows.columns;
  for (const BucketParam& at : nth(layout_.buckets(), bucket).params) {
    Tensor& lists = nth(touched_, at.param);
    DS_CHECK(lists.defined(), "gradient of parameter {}: nobody has said which rows it has",
             at.param);
    const Shape shape{at.numel / columns, columns};
    Tensor sum = view(state.reduced, at.param, shape);
    exchange_.add_up(lists, view(state.whole, at.param, shape),
                     micro_step_ == 0 ? kernels::Write::kOverwrite : kernels::Write::kAccumulate,
                     sum);
  }
}

// The same sums in the same order, in buffers that come and go. All micro-steps take the same ones.
void GradReducer::hand_over(int bucket) {
  const State& state = nth(states_, bucket);
  const int64_t numel = layout_.slice_numel(bucket);
  const Tensor from = sent(state.whole);
  const bool widens = from.dtype() != options_.slice_dtype && options_.slice_dtype == DType::kF32;
  Tensor place = widens ? slots_.take(numel, options_.slice_dtype, streams_.peers)
                        : from.narrow(comm_.rank() * numel, numel);
  reduce_scatter(bucket, from, place);
  for (Communicator* const others : summed_) {
    others->all_reduce(place, ReduceOp::kSum, streams_.peers);
  }
  if (begins_sum() && completes_sum() && place.dtype() == options_.slice_dtype) {
    store(bucket, place);
  } else {
    Tensor sum = slots_.take(numel, options_.slice_dtype, streams_.peers);
    if (begins_sum()) {
      kernels::cast(streams_.peers, place, sum);
    } else {
      state_->load_gradient(bucket, sum, streams_.peers);
      kernels::accumulate(streams_.peers, place, sum);
    }
    store(bucket, sum);
    slots_.give_back(sum, streams_.peers);
  }
  if (widens) slots_.give_back(place, streams_.peers);
}

void GradReducer::hand_over_alone(int bucket) {
  // What is kept whole here goes when it is complete.
  if (!keeps_whole() || completes_sum()) store(bucket, nth(states_, bucket).whole);
}

void GradReducer::store(int bucket, const Tensor& sum) {
  if (!completes_sum()) return state_->store_gradient(bucket, sum, streams_.peers);
  {
    const MemoryScope scope(streams_.peers, slots_.memory());  // no memory of a micro-step
    kernels::sum_of_squares_into(streams_.peers, sum, kernels::Write::kOverwrite,
                                 squares_.narrow(bucket, 1));
  }
  state_->store_final_gradient(bucket, sum, streams_.peers);
}

void GradReducer::check_contributions() {
  for (int param = 0; param < narrow<int>(written_.size()); ++param) {
    DS_CHECK(nth(written_, param) == expected(param),
             "gradient of parameter {}: {} contributions in this {}, expected {}", param,
             nth(written_, param),
             options_.reduce == Reduce::kEachMicroStep ? "micro-step" : "step", expected(param));
    nth(written_, param) = 0;
  }
}

void GradReducer::end_micro_step() {
  if (options_.reduce == Reduce::kEachMicroStep) check_contributions();
  ++micro_step_;
}

void GradReducer::forget_events() {
  for (State& state : states_) state.reduced_at = {};
}

bool GradReducer::narrows(const State& state) const {
  return wire_.defined() && size_of(wire_.dtype()) < size_of(state.reduced.dtype());
}

// Sums of rows are on every rank already, and are given the bits that those would have which are
// sent.
void GradReducer::round_as_sent(State& state) {
  if (!narrows(state)) return;
  Tensor sent = wire_.narrow(0, state.reduced.numel());
  kernels::cast(streams_.peers, state.reduced, sent);
  kernels::cast(streams_.peers, sent, state.reduced);
}

// What is sent in fewer bits is rounded on this rank too, so that all have the same.
void GradReducer::gather(State& state, int64_t numel) {
  const bool is_narrow = narrows(state);
  Tensor whole = is_narrow ? wire_.narrow(0, state.reduced.numel()) : state.reduced;
  Tensor place = whole.narrow(comm_.rank() * numel, numel);
  if (!place.aliases(state.slice)) kernels::cast(streams_.peers, state.slice, place);
  comm_.all_gather(place, whole, streams_.peers);
  if (is_narrow) kernels::cast(streams_.peers, whole, state.reduced);
}

void GradReducer::end_step() {
  if (options_.reduce == Reduce::kEachMicroStep) {
    DS_CHECK(micro_step_ == options_.micro_steps,
             "gradients: the step ends after {} of {} micro-steps", micro_step_,
             options_.micro_steps);
  } else {
    check_contributions();
  }
  if (gradients_ == GradientsOf::kOwnRank) return;
  const bool gathers = options_.state == Sharding::kWhole && !is_alone();
  streams_.peers.wait(streams_.compute.mark());
  for (int b = 0; b < narrow<int>(states_.size()); ++b) {
    if (options_.reduce != Reduce::kEachMicroStep) reduce(b);
    if (options_.offloaded) continue;
    State& state = nth(states_, b);
    for (Communicator* const others : summed_) {
      others->all_reduce(state.slice, ReduceOp::kSum, streams_.peers);
    }
    if (!gathers) continue;
    exchanges_rows() ? round_as_sent(state) : gather(state, layout_.slice_numel(b));
  }
  streams_.compute.wait(streams_.peers.mark());
}

}  // namespace ds
