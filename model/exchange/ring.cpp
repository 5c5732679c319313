#include "model/exchange/ring.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/elementwise/runs.h"
#include "model/exchange/sinks.h"
#include "model/parallel/ring_passes.h"

namespace ds {
namespace {

using kernels::AttentionPart;
using kernels::AttentionSpec;
using kernels::Write;

struct Ring {
  Stream& stream;
  Stream& messages;
  Communicator& group;
  AttentionSpec here;
  ParamId sinks = kNoParam;

  RingPlace place() const { return {stream, messages, group}; }
  std::vector<AttentionPart> parts(int owner) const {
    return zigzag_parts(here, {group.rank(), group.size()}, owner);
  }

  int64_t packed() const { return here.shape.packed(); }
  int64_t rows() const { return here.shape.batch * here.shape.length; }
  int64_t width() const { return here.shape.heads * here.shape.head_dim; }
  int64_t keys_width() const { return 2 * here.shape.kv_heads * here.shape.head_dim; }
};

// Columns [column, column + to's width) of qkv [rows, packed()], or back.
void copy_columns(const Ring& ring, const Tensor& from, int64_t from_column, int64_t from_width,
                  Tensor& to, int64_t to_column, int64_t to_width) {
  kernels::copy_runs(ring.stream,
                     {.outer = 1, .inner = ring.rows(), .numel = std::min(from_width, to_width)},
                     from, {.first = from_column, .outer = 0, .inner = from_width}, to,
                     {.first = to_column, .outer = 0, .inner = to_width});
}

Tensor keys_and_values(const Ring& ring, const Tensor& qkv) {
  Tensor kv = Tensor::empty({ring.rows(), ring.keys_width()}, qkv.dtype(), ring.stream);
  copy_columns(ring, qkv, ring.width(), ring.packed(), kv, 0, ring.keys_width());
  return kv;
}

struct Attended {
  Tensor y, log_sum_exp;  // y of qkv's dtype
};

Attended pass_forward(const Context& context, Ring ring, const Tensor& qkv) {
  const kernels::AttentionShape& here = ring.here.shape;
  Tensor y = Tensor::empty({ring.rows(), ring.width()}, DType::kF32, ring.stream);
  Tensor sums = Tensor::empty({here.batch, here.heads, here.length}, DType::kF32, ring.stream);
  pass_keys(ring.place(), keys_and_values(ring, qkv), [&](int owner, const Tensor& keys) {
    for (const AttentionPart& part : ring.parts(owner)) {
      kernels::attention_part_forward(ring.stream, part, qkv, keys, y, sums,
                                      is_first(part) ? Write::kOverwrite : Write::kAccumulate);
    }
  });
  apply_sinks(context, here, ring.sinks, y, sums);
  return {as_value(ring.stream, std::move(y), qkv.dtype()), std::move(sums)};
}

Tensor pass_backward(Ring ring, ParameterStore& store, const Tensor& qkv, const Attended& out,
                     const Tensor& dy) {
  Stream& stream = ring.stream;
  Tensor delta = Tensor::empty(out.log_sum_exp.shape(), DType::kF32, stream);
  kernels::attention_delta(stream, ring.here.shape, out.y, dy, delta);
  if (ring.sinks != kNoParam) {
    give_sink_gradient(stream, store, ring.here.shape, ring.sinks, {out.log_sum_exp, delta});
  }
  Tensor dq = Tensor::zeros({ring.rows(), ring.width()}, DType::kF32, stream);
  const Tensor dkv =
      pass_gradients(ring.place(), keys_and_values(ring, qkv),
                     [&](int owner, const Tensor& keys, Tensor& gradient) {
                       for (const AttentionPart& part : ring.parts(owner)) {
                         kernels::attention_part_backward(stream, part, qkv, keys,
                                                          {.log_sum_exp = out.log_sum_exp,
                                                           .delta = delta,
                                                           .dy = dy,
                                                           .dq = dq,
                                                           .dkv = gradient});
                       }
                     });
  Tensor dqkv = Tensor::empty(qkv.shape(), qkv.dtype(), stream);
  const auto put = [&](const Tensor& sums, int64_t column) {
    copy_columns(ring, as_value(stream, sums, qkv.dtype()), 0, sums.shape()[1], dqkv, column,
                 ring.packed());
  };
  put(dq, 0);
  put(dkv, ring.width());
  return dqkv;
}

}  // namespace

Var ring_attention(Context& context, const AttentionSpec& here, const Var& qkv, ParamId sinks) {
  DS_CHECK(here.shape.length % 2 == 0, "ring: {} rows of a sequence are no two equal pieces",
           here.shape.length);
  Stream& messages = context.parallel.ring_messages() != nullptr ? *context.parallel.ring_messages()
                                                                 : context.stream;
  const Ring ring{context.stream, messages, *context.parallel.group(Axis::kRing), here, sinks};
  const DType dtype = qkv.value.dtype();
  const Tensor input = as_operand(context.stream, qkv.value, context.pass.operands);
  Attended out = pass_forward(context, ring, input);
  auto backward = [ring, dtype, &store = *context.store, qkv_saved = context.save(input),
                   y_saved = context.save(out.y),
                   sums_saved = context.save(out.log_sum_exp)](GradientFlow& flow) mutable {
    const Tensor packed = take(qkv_saved);
    const Attended seen{take(y_saved), take(sums_saved)};
    const Tensor dy = as_operand(ring.stream, flow.take(0), packed.dtype());
    flow.give(0, as_value(ring.stream, pass_backward(ring, store, packed, seen, dy), dtype));
  };
  Tensor value = as_value(context.stream, std::move(out.y), dtype);
  return context.record("attention", {&qkv, 1}, {std::move(value)}, std::move(backward)).front();
}

}  // namespace ds
