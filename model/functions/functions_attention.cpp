#include "comm/contract/communicator.h"
#include "kernels/attention/attention_part.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/runs.h"
#include "kernels/rotary/rope.h"
#include "model/exchange/ring.h"
#include "model/exchange/sequence.h"
#include "model/exchange/sinks.h"
#include "model/functions/functions.h"
#include "model/pass/kv_cache.h"
#include "model/pass/own.h"

namespace ds {
namespace {

using kernels::AttentionShape;
using kernels::AttentionSpec;

void copy_elements(Stream& stream, const Tensor& from, int64_t from_first, Tensor& to,
                   int64_t to_first, int64_t count) {
  Tensor target = to.narrow(to_first, count);
  kernels::cast(stream, from.narrow(from_first, count), target);
}

void fill_cache(Stream& stream, const AttentionShape& shape, const Tensor& qkv, KvCache& cache,
                int64_t layer) {
  const int64_t width = shape.kv_heads * shape.head_dim;
  const int64_t queries = shape.heads * shape.head_dim;
  for (int64_t row = 0; row < shape.batch * shape.length; ++row) {
    const int64_t position = cache.length() + row % shape.length;
    const int64_t from = row * shape.packed() + queries;
    const int64_t to = (row / shape.length * cache.capacity() + position) * width;
    copy_elements(stream, qkv, from, cache.keys(layer), to, width);
    copy_elements(stream, qkv, from + width, cache.values(layer), to, width);
  }
}

Tensor decode(Stream& stream, const AttentionSpec& spec, const Tensor& qkv, KvCache& cache,
              int64_t layer) {
  const AttentionShape& shape = spec.shape;
  const int64_t queries = shape.heads * shape.head_dim;
  Tensor q = Tensor::empty({shape.batch, queries}, qkv.dtype(), stream);
  for (int64_t row = 0; row < shape.batch; ++row) {
    copy_elements(stream, qkv, row * shape.packed(), q, row * queries, queries);
  }
  AttentionSpec seen = spec;
  seen.shape.length = cache.length() + 1;
  Tensor y = Tensor::empty({shape.batch, queries}, qkv.dtype(), stream);
  kernels::attention_decode(stream, seen, q, cache.keys(layer), cache.values(layer),
                            cache.capacity(), y);
  return y;
}

void check_cache(const Context& context, const AttentionShape& shape) {
  const KvCache& cache = *context.cache;
  DS_CHECK(!context.differentiates(), "attention: a cache is for generation, not for training");
  DS_CHECK(cache.batch() == shape.batch, "attention: {} sequences with a cache of {}", shape.batch,
           cache.batch());
  DS_CHECK(shape.length == 1 || cache.length() == 0,
           "attention: {} new positions after {} cached ones; give them one by one", shape.length,
           cache.length());
  DS_CHECK(cache.length() + shape.length <= cache.capacity(), "attention: the cache of {} is full",
           cache.capacity());
}

// This is a rank's place among those that have heads of the same sequences: heads are first cut
// among those that share the layer, then among those that exchange them around attention.
struct HeadPlace {
  int64_t place = 0, places = 1;
};
HeadPlace place_among_heads(const Context& context) {
  HeadPlace at;
  for (const Communicator* const others :
       {context.parallel.group(Axis::kTensor), context.parallel.group(Axis::kUlysses)}) {
    if (others == nullptr) continue;
    at = {at.place * others->size() + others->rank(), at.places * others->size()};
  }
  return at;
}

// Computes attention of the rows and heads that are here.
Var own_attention(Context& context, const AttentionSpec& spec, const Var& qkv, int64_t layer,
                  const DropoutSpec& dropout, ParamId sinks) {
  Stream& stream = context.stream;
  const AttentionShape& shape = spec.shape;
  if (context.cache != nullptr) {
    check_cache(context, shape);
    fill_cache(stream, shape, qkv.value, *context.cache, layer);
    if (shape.length == 1) {
      return {decode(stream, spec, qkv.value, *context.cache, layer), Var::kConstant};
    }
  }
  const int64_t rows = shape.batch * shape.length;
  const DType dtype = qkv.value.dtype();
  const Tensor input = as_operand(stream, qkv.value, context.pass.operands);
  Tensor y = Tensor::empty({rows, shape.heads * shape.head_dim}, input.dtype(), stream);
  Tensor log_sum_exp = Tensor::empty({shape.batch, shape.heads, shape.length}, DType::kF32, stream);
  const auto [place, places] = place_among_heads(context);
  const kernels::AttentionDropout drop{.p = context.pass.mode == RunMode::kTrain ? dropout.p : 0,
                                       .mask = {context.pass.micro, dropout.site},
                                       .all_heads = places > 1 ? places * shape.heads : 0,
                                       .first_head = place * shape.heads};
  kernels::attention_forward(stream, spec, input, y, log_sum_exp, drop);
  apply_sinks(context, shape, sinks, y, log_sum_exp);

  auto backward = [&stream, &store = *context.store, spec, drop, dtype, sinks,
                   qkv_saved = context.save(input), y_saved = context.save(y),
                   sums_saved = context.save(log_sum_exp)](GradientFlow& flow) mutable {
    const Tensor packed = take(qkv_saved);
    const Tensor dy = as_operand(stream, flow.take(0), packed.dtype());
    const Tensor out = take(y_saved), sums = take(sums_saved);
    if (sinks != kNoParam) {
      Tensor delta = Tensor::empty(sums.shape(), DType::kF32, stream);
      kernels::attention_delta(stream, spec.shape, out, dy, delta);
      give_sink_gradient(stream, store, spec.shape, sinks, {sums, delta});
    }
    Tensor dqkv = Tensor::empty(packed.shape(), packed.dtype(), stream);
    AttentionSpec seen = spec;
    seen.has_sink = sinks != kNoParam;
    kernels::attention_backward(stream, seen, packed, out, sums, dy, dqkv, drop);
    flow.give(0, as_value(stream, std::move(dqkv), dtype));
  };
  Tensor value = as_value(stream, std::move(y), dtype);
  return context.record("attention", {&qkv, 1}, {std::move(value)}, std::move(backward)).front();
}

Var around_ring(Context& context, const AttentionSpec& spec, const Var& qkv,
                const DropoutSpec& dropout, ParamId sinks) {
  DS_CHECK(context.pass.mode != RunMode::kTrain || dropout.p == 0,
           "attention: a ring drops no probabilities, and {} of them are to be dropped", dropout.p);
  return ring_attention(context, spec, qkv, sinks);
}

// Runs of a row: all that stands before its values, and the values of its heads.
struct ValueRuns {
  int64_t rows = 0, before = 0, heads = 0, narrow = 0, wide = 0;
};

// rows of `heads` runs that begin at `first`, as long and as far apart in either as said.
void copy_values(Stream& stream, const ValueRuns& runs, const Tensor& from, int64_t from_width,
                 Tensor& to, int64_t to_width) {
  if (runs.before > 0) {
    kernels::copy_runs(stream, {.outer = 1, .inner = runs.rows, .numel = runs.before}, from,
                       {.inner = runs.before + runs.heads * from_width}, to,
                       {.inner = runs.before + runs.heads * to_width});
  }
  kernels::copy_runs(
      stream, {.outer = runs.rows, .inner = runs.heads, .numel = runs.narrow}, from,
      {.first = runs.before, .outer = runs.before + runs.heads * from_width, .inner = from_width},
      to, {.first = runs.before, .outer = runs.before + runs.heads * to_width, .inner = to_width});
}

Tensor widened(Stream& stream, const ValueRuns& runs, const Tensor& narrow) {
  Tensor wide =
      Tensor::zeros({runs.rows, runs.before + runs.heads * runs.wide}, narrow.dtype(), stream);
  copy_values(stream, runs, narrow, runs.narrow, wide, runs.wide);
  return wide;
}

Tensor narrowed(Stream& stream, const ValueRuns& runs, const Tensor& wide) {
  Tensor narrow =
      Tensor::empty({runs.rows, runs.before + runs.heads * runs.narrow}, wide.dtype(), stream);
  copy_values(stream, runs, wide, runs.wide, narrow, runs.narrow);
  return narrow;
}

// Fills values up with zeros, or takes off what they were filled up with.
enum class Values : uint8_t { kWiden, kNarrow };
Var with_values(Context& context, const ValueRuns& runs, Values what, const Var& x) {
  Stream& stream = context.stream;
  const auto make = [&stream, runs](Values to, const Tensor& from) {
    return to == Values::kWiden ? widened(stream, runs, from) : narrowed(stream, runs, from);
  };
  const Values back = what == Values::kWiden ? Values::kNarrow : Values::kWiden;
  auto backward = [make, back](GradientFlow& flow) { flow.give(0, make(back, flow.take(0))); };
  return context.record("values", {&x, 1}, {make(what, x.value)}, std::move(backward)).front();
}

// Whether the form of attention is one that this way of making it has.
void require_way(const Context& context, const AttentionSpec& spec, ParamId sinks) {
  const bool is_narrow = spec.value_dim > 0;
  if (sinks == kNoParam && !is_narrow) return;
  const std::string_view what = is_narrow ? "values that are narrower than keys" : "sinks";
  if (context.cache != nullptr) {
    throw Unsupported(fmt::format("attention: {} with a cache of keys and values", what));
  }
  if (context.parallel.group(Axis::kUlysses) != nullptr) {
    throw Unsupported(fmt::format("attention: {} where ranks exchange heads", what));
  }
}

}  // namespace

Var attention(Context& context, const AttentionSpec& spec, const Var& qkv, int64_t layer,
              const DropoutSpec& dropout, ParamId sinks) {
  require_way(context, spec, sinks);
  if (spec.has_narrow_values()) {
    const AttentionShape& shape = spec.shape;
    const int64_t keys = (shape.heads + shape.kv_heads) * shape.head_dim;
    ValueRuns runs{.rows = shape.batch * shape.length,
                   .before = keys,
                   .heads = shape.kv_heads,
                   .narrow = spec.value_dim,
                   .wide = shape.head_dim};
    AttentionSpec filled = spec;
    filled.value_dim = 0;
    const Var y = attention(context, filled, with_values(context, runs, Values::kWiden, qkv), layer,
                            dropout, sinks);
    runs.before = 0;
    runs.heads = shape.heads;
    return with_values(context, runs, Values::kNarrow, y);
  }
  if (context.parallel.group(Axis::kSequence) == nullptr)
    return own_attention(context, spec, qkv, layer, dropout, sinks);
  DS_CHECK(context.cache == nullptr, "attention: a cache holds whole sequences, not parts of them");
  const bool exchanges = context.parallel.group(Axis::kUlysses) != nullptr;
  AttentionSpec of_share = spec;
  if (exchanges)
    of_share.shape = attention_of_share(spec.shape, context.parallel.group(Axis::kUlysses)->size());
  Var y = exchanges ? to_heads(context, spec.shape, qkv) : qkv;
  y = context.parallel.group(Axis::kRing) == nullptr
          ? own_attention(context, of_share, y, layer, dropout, sinks)
          : around_ring(context, of_share, y, dropout, sinks);
  return exchanges ? to_sequence(context, spec.shape, y) : y;
}

namespace {

void rotate(Stream& stream, const AttentionShape& shape, const kernels::RotaryTable& table,
            const SequenceRows& rows, kernels::Rotation rotation, Tensor& qkv) {
  if (rows.own_positions.defined()) {
    return kernels::rope(stream, shape, table, {.rows = rows.own_positions}, rotation, qkv);
  }
  const int64_t packed = shape.packed();
  for (const RowBlock& block :
       row_blocks(shape.batch * shape.length, shape.length, rows.positions)) {
    AttentionShape of_block = shape;
    of_block.batch = block.rows / block.length;
    of_block.length = block.length;
    Tensor rotated = qkv.narrow(block.row * packed, block.rows * packed);
    kernels::rope(stream, of_block, table, {.first = block.first_position}, rotation, rotated);
  }
}

}  // namespace

Var rope(Context& context, const AttentionShape& shape, const kernels::RotaryTable& table,
         const SequenceRows& rows, Var qkv) {
  DS_CHECK(qkv.value.is_sole_owner(), "rope: rotates in place, but somebody else holds qkv");
  Stream& stream = context.stream;
  rotate(stream, shape, table, rows, kernels::Rotation::kForward, qkv.value);
  auto backward = [&stream, shape, &table, rows](GradientFlow& flow) {
    Tensor dqkv = own(stream, flow.take(0));
    rotate(stream, shape, table, rows, kernels::Rotation::kInverse, dqkv);
    flow.give(0, std::move(dqkv));
  };
  Tensor rotated = std::move(qkv.value);
  return context.record("rope", {&qkv, 1}, {std::move(rotated)}, std::move(backward)).front();
}

}  // namespace ds
