#include "model/parallel/ring.h"

#include <algorithm>
#include <utility>

#include "comm/communicator.h"
#include "kernels/attention_part.h"
#include "kernels/elementwise.h"
#include "kernels/runs.h"

namespace ds {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;
using kernels::Seen;
using kernels::SequencePart;
using kernels::Write;

struct Ring {
  Stream& stream;
  Communicator& group;
  AttentionShape here;

  int size() const { return group.size(); }
  // Whose keys and values are here after so many passes.
  int owner(int passes) const { return (group.rank() + size() - passes) % size(); }
  int64_t rows() const { return here.batch * here.length; }
  int64_t width() const { return here.heads * here.head_dim; }
  int64_t keys_width() const { return 2 * here.kv_heads * here.head_dim; }

  void send(const Tensor& tensor) { group.send(tensor, (group.rank() + 1) % size(), stream); }
  Tensor receive(const Shape& shape, DType dtype) {
    Tensor tensor = Tensor::empty(shape, dtype, stream);
    group.recv(tensor, (group.rank() + size() - 1) % size(), stream);
    return tensor;
  }
};

// What queries here see of another rank's pieces: everything of one from before them, nothing of
// one from behind. Front pieces are in the order of the ranks, back pieces in the opposite one.
AttentionPart part_of(const Ring& ring, int owner) {
  const AttentionShape& here = ring.here;
  const int64_t piece = here.length / 2;
  const SequencePart both{.length = here.length, .first = 0, .count = here.length};
  const SequencePart front{.length = here.length, .first = 0, .count = piece};
  const SequencePart back{.length = here.length, .first = piece, .count = piece};
  AttentionPart part{.batch = here.batch,
                     .heads = here.heads,
                     .kv_heads = here.kv_heads,
                     .head_dim = here.head_dim,
                     .queries = both,
                     .keys = both};
  if (owner == ring.group.rank()) {
    part.seen = Seen::kUpToOwn;
  } else if (owner < ring.group.rank()) {
    part.keys = front;
  } else {
    part.queries = back;
  }
  return part;
}

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
  copy_columns(ring, qkv, ring.width(), ring.here.packed(), kv, 0, ring.keys_width());
  return kv;
}

struct Attended {
  Tensor y, log_sum_exp;  // y of qkv's dtype
};

Attended pass_forward(Ring ring, const Tensor& qkv) {
  const AttentionShape& here = ring.here;
  Tensor y = Tensor::empty({ring.rows(), ring.width()}, DType::kF32, ring.stream);
  Tensor sums = Tensor::empty({here.batch, here.heads, here.length}, DType::kF32, ring.stream);
  Tensor kv = keys_and_values(ring, qkv);
  for (int passes = 0; passes < ring.size(); ++passes) {
    if (passes > 0) kv = ring.receive(kv.shape(), kv.dtype());
    if (passes + 1 < ring.size()) ring.send(kv);
    kernels::attention_part_forward(ring.stream, part_of(ring, ring.owner(passes)), qkv, kv, y,
                                    sums, passes == 0 ? Write::kOverwrite : Write::kAccumulate);
  }
  return {as_value(ring.stream, std::move(y), qkv.dtype()), std::move(sums)};
}

// Gradients of keys and values follow these, one rank behind: who has added its part sends them on,
// and the last sends them home.
Tensor pass_backward(Ring ring, const Tensor& qkv, const Attended& out, const Tensor& dy) {
  Stream& stream = ring.stream;
  Tensor delta = Tensor::empty(out.log_sum_exp.shape(), DType::kF32, stream);
  kernels::attention_delta(stream, ring.here, out.y, dy, delta);
  Tensor dq = Tensor::zeros({ring.rows(), ring.width()}, DType::kF32, stream);
  Tensor dkv = Tensor::zeros({ring.rows(), ring.keys_width()}, DType::kF32, stream);
  Tensor kv = keys_and_values(ring, qkv);
  for (int passes = 0; passes < ring.size(); ++passes) {
    if (passes > 0) kv = ring.receive(kv.shape(), kv.dtype());
    if (passes + 1 < ring.size()) ring.send(kv);
    Tensor passing = passes == 0   ? dkv
                     : passes == 1 ? Tensor::zeros(dkv.shape(), DType::kF32, stream)
                                   : ring.receive(dkv.shape(), DType::kF32);
    kernels::attention_part_backward(
        stream, part_of(ring, ring.owner(passes)), qkv, kv,
        {.log_sum_exp = out.log_sum_exp, .delta = delta, .dy = dy, .dq = dq, .dkv = passing});
    if (passes > 0) ring.send(passing);
  }
  const Tensor of_others = ring.receive(dkv.shape(), DType::kF32);
  kernels::accumulate(stream, of_others, dkv);
  Tensor dqkv = Tensor::empty(qkv.shape(), qkv.dtype(), stream);
  const auto put = [&](const Tensor& sums, int64_t column) {
    copy_columns(ring, as_value(stream, sums, qkv.dtype()), 0, sums.shape()[1], dqkv, column,
                 ring.here.packed());
  };
  put(dq, 0);
  put(dkv, ring.width());
  return dqkv;
}

}  // namespace

Var ring_attention(Context& context, const AttentionShape& here, const Var& qkv) {
  DS_CHECK(here.length % 2 == 0, "ring: {} rows of a sequence are no two equal pieces",
           here.length);
  const Ring ring{context.stream, *context.sequence, here};
  const DType dtype = qkv.value.dtype();
  const Tensor input = as_operand(context.stream, qkv.value, context.operands);
  Attended out = pass_forward(ring, input);
  auto backward = [ring, dtype, qkv_saved = context.save(input), y_saved = context.save(out.y),
                   sums_saved = context.save(out.log_sum_exp)](GradientFlow& flow) mutable {
    const Tensor packed = take(qkv_saved);
    const Attended seen{take(y_saved), take(sums_saved)};
    const Tensor dy = as_operand(ring.stream, flow.take(0), packed.dtype());
    flow.give(0, as_value(ring.stream, pass_backward(ring, packed, seen, dy), dtype));
  };
  Tensor value = as_value(context.stream, std::move(out.y), dtype);
  return context.record("attention", {&qkv, 1}, {std::move(value)}, std::move(backward)).front();
}

}  // namespace ds
