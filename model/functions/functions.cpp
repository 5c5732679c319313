#include "model/functions/functions.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pooling/pooling.h"
#include "model/exchange/sequence.h"
#include "model/exchange/tensor.h"
#include "model/pass/module_label.h"
#include "model/pass/own.h"

namespace ds {
namespace {

struct NormValues {
  Tensor sum, y, mean, inv_std;  // mean undefined for RMS norm
};

// The bias of a layer norm, or zeros where it has none.
struct BiasOfNorm {
  BiasOfNorm(ParameterStore& store, const NormSpec& spec, const Tensor& gamma, Stream& stream) {
    if (spec.beta != kNoParam) lease.emplace(store.acquire(spec.beta));
    tensor = lease ? lease->weight() : Tensor::zeros(gamma.shape(), gamma.dtype(), stream);
  }
  std::optional<Lease> lease;
  Tensor tensor;
};

NormValues normalize(Context& context, const Tensor& residual, const Tensor& branch,
                     const NormSpec& spec) {
  Stream& stream = context.stream;
  const Span span(stream, module_label(*context.store, spec.gamma));
  const Lease gamma = context.store->acquire(spec.gamma);
  const Shape& shape = residual.shape();
  NormValues out;
  out.sum = branch.defined() ? Tensor::empty(shape, residual.dtype(), stream) : residual;
  out.y = Tensor::empty(shape, residual.dtype(), stream);
  out.inv_std = Tensor::empty({shape[0]}, DType::kF32, stream);
  if (spec.form == NormForm::kRms) {
    if (branch.defined()) {
      kernels::add_rms_norm(stream, branch, residual, gamma.weight(), spec.eps, out.sum, out.y,
                            out.inv_std, spec.weight);
    } else {
      kernels::rms_norm(stream, residual, gamma.weight(), spec.eps, out.y, out.inv_std,
                        spec.weight);
    }
    return out;
  }
  const BiasOfNorm beta(*context.store, spec, gamma.weight(), stream);
  out.mean = Tensor::empty({shape[0]}, DType::kF32, stream);
  if (branch.defined()) {
    kernels::add_layer_norm(stream, branch, residual, gamma.weight(), beta.tensor, spec.eps,
                            out.sum, out.y, out.mean, out.inv_std);
  } else {
    kernels::layer_norm(stream, residual, gamma.weight(), beta.tensor, spec.eps, out.y, out.mean,
                        out.inv_std);
  }
  return out;
}

Tensor norm_gradient(Stream& stream, ParameterStore& store, const NormSpec& spec, const Tensor& sum,
                     const Tensor& mean, const Tensor& inv_std, const Tensor& dy,
                     const Tensor& dsum) {
  Tensor dx;
  if (dy.is_sole_owner()) {
    dx = dy;
  } else if (dsum.defined() && dsum.is_sole_owner()) {
    dx = dsum;
  } else {
    dx = Tensor::empty(dy.shape(), dy.dtype(), stream);
  }
  const Lease gamma = store.acquire(spec.gamma);
  const GradSlot gamma_slot = store.grad_slot(spec.gamma);
  kernels::LayerNormGrads grads{.dgamma = gamma_slot.grad,
                                .dbeta = Tensor(),
                                .write_gamma = gamma_slot.write,
                                .write_beta = kernels::Write::kOverwrite};
  if (spec.form == NormForm::kRms) {
    kernels::rms_norm_backward(stream, sum, gamma.weight(), inv_std, dy, dsum, dx, grads,
                               spec.weight);
  } else {
    const bool has_bias = spec.beta != kNoParam;
    const GradSlot beta_slot =
        has_bias ? store.grad_slot(spec.beta)
                 : GradSlot{.grad = Tensor::empty(gamma_slot.grad.shape(), gamma_slot.grad.dtype(),
                                                  stream)};
    grads.dbeta = beta_slot.grad;
    grads.write_beta = beta_slot.write;
    kernels::layer_norm_backward(stream, sum, gamma.weight(), mean, inv_std, dy, dsum, dx, grads);
    if (has_bias) store.grad_ready(spec.beta);
  }
  store.grad_ready(spec.gamma);
  return dx;
}

}  // namespace

NormOutput norm(Context& context, const Var& residual, const Var& branch, const NormSpec& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  NormValues values = normalize(context, residual.value, branch.value, spec);
  auto backward = [&stream, &store, spec, sum_saved = context.save(values.sum),
                   mean_saved = context.save(values.mean),
                   inv_saved = context.save(values.inv_std)](GradientFlow& flow) mutable {
    const Tensor dsum = flow.take(0);
    const Tensor dy = flow.take(1);
    DS_CHECK(dy.defined(), "norm: its output was not used, so it has no gradient");
    Tensor dx = norm_gradient(stream, store, spec, take(sum_saved), take(mean_saved),
                              take(inv_saved), dy, dsum);
    flow.give(1, dx);
    flow.give(0, std::move(dx));
  };
  const std::array<Var, 2> inputs{residual, branch};
  std::vector<Var> out = context.record(
      "norm", inputs, {std::move(values.sum), std::move(values.y)}, std::move(backward));
  return {std::move(out[0]), std::move(out[1])};
}

namespace {

// Samples of which a part is here are not one run of numbers. `first`: of those that are here,
// where other ranks have the elements before.
void drop_part(Stream& stream, const Tensor& x, float p, kernels::DropoutMask mask,
               const SamplePart& part, int64_t first, Tensor& y) {
  if (part.is_whole()) {
    mask.skipped = first;
    return kernels::dropout(stream, x, p, mask, part.sample_numel, y);
  }
  int64_t begin = 0;  // of a run, among those that are here
  for (int64_t sample = 0; begin < first + x.numel(); ++sample) {
    for (const Range& kept : part.kept) {
      const int64_t from = std::max(begin, first);
      const int64_t end = std::min(begin + kept.numel(), first + x.numel());
      if (from < end) {
        mask.skipped = sample * part.sample_numel + kept.begin + (from - begin);
        Tensor to = y.narrow(from - first, end - from);
        kernels::dropout(stream, x.narrow(from - first, end - from), p, mask, part.sample_numel,
                         to);
      }
      begin += kept.numel();
    }
  }
}

Tensor rows_of(const Tensor& matrix, int64_t first, int64_t count) {
  const int64_t width = matrix.shape()[1];
  return matrix.narrow(first * width, count * width).reshape({count, width});
}

// A block's rows of dy are added to the gradient of positions, from the block's first position on.
void add_positions(Stream& stream, const Tensor& dy, int64_t length, const Positions& positions,
                   const GradSlot& slot) {
  Tensor grad = slot.grad;
  const std::vector<RowBlock> blocks = row_blocks(dy.shape()[0], length, positions);
  kernels::Write write = slot.write;
  if (write == kernels::Write::kOverwrite && blocks.size() > 1) {
    kernels::fill(stream, grad, 0.0F);
    write = kernels::Write::kAccumulate;
  }
  for (const RowBlock& block : blocks) {
    const int64_t first = block.first_position;
    Tensor rest = rows_of(grad, first, grad.shape()[0] - first);
    if (write == kernels::Write::kOverwrite && first > 0) {
      Tensor before = rows_of(grad, 0, first);
      kernels::fill(stream, before, 0.0F);
    }
    kernels::position_backward(stream, rows_of(dy, block.row, block.rows), block.length, write,
                               rest);
  }
}

// The rows of a table from `first` on.
Tensor from_row(const Tensor& table, int64_t first) {
  return first == 0 ? table : rows_of(table, first, table.shape()[0] - first);
}

// The gradient of those rows; the rows before them have none.
GradSlot from_row(Stream& stream, const GradSlot& slot, int64_t first) {
  if (first > 0 && slot.write == kernels::Write::kOverwrite) {
    Tensor before = rows_of(slot.grad, 0, first);
    kernels::fill(stream, before, 0.0F);
  }
  return {.grad = from_row(slot.grad, first), .write = slot.write};
}

// y += table[rows]. A table that is undefined is added elsewhere.
void add_rows(Stream& stream, const Tensor& rows, const Tensor& table, Tensor& y) {
  // All ranks that share the layer have this, since they follow one plan of memory.
  Tensor of_rows = Tensor::empty(y.shape(), y.dtype(), stream);
  if (!table.defined()) return;
  kernels::embedding_forward(stream, rows, table, {}, rows.numel(), 0, of_rows);
  kernels::add(stream, of_rows, y, y);
}

// y of the tokens, with positions where these are added here. own_positions: rows have their own.
void look_up(Stream& stream, const TokenRows& given, const Tensor& table, const Tensor& positions,
             bool own_positions, const kernels::TablePart& part, Tensor& y) {
  const Tensor& tokens = given.tokens;
  const SequenceRows& rows = given.rows;
  if (own_positions) {
    kernels::embedding_forward(stream, tokens, table, {}, rows.length, 0, y, part);
    return add_rows(stream, rows.own_positions, positions, y);
  }
  for (const RowBlock& block : row_blocks(tokens.numel(), rows.length, rows.positions)) {
    Tensor to = rows_of(y, block.row, block.rows);
    kernels::embedding_forward(stream, tokens.narrow(block.row, block.rows), table, positions,
                               block.length, block.first_position, to, part);
  }
}

}  // namespace

Var dropout(Context& context, Var x, const DropoutSpec& spec, int64_t length) {
  if (context.pass.mode != RunMode::kTrain || spec.p == 0) return x;
  Stream& stream = context.stream;
  const kernels::DropoutMask mask{context.pass.micro, spec.site};
  const SamplePart part = sample_part(context, length, x.value.shape()[1]);
  const int64_t first = rows_before(context, x.value.shape()[0]) * x.value.shape()[1];
  const auto apply = [&stream, mask, part, first, p = spec.p](Tensor given) {
    const Tensor from = std::move(given);
    Tensor to = from.is_sole_owner() ? from : Tensor::empty(from.shape(), from.dtype(), stream);
    drop_part(stream, from, p, mask, part, first, to);
    return to;
  };
  Tensor y = context.pass.unread ? std::move(x.value) : apply(std::move(x.value));
  auto backward = [apply](GradientFlow& flow) { flow.give(0, apply(flow.take(0))); };
  return context.record("dropout", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

Var scaled(Context& context, Var x, float factor) {
  if (factor == 1.0F) return x;
  Stream& stream = context.stream;
  const auto apply = [&stream, factor](Tensor given) {
    Tensor y = own(stream, std::move(given));
    kernels::scale(stream, factor, y);
    return y;
  };
  Tensor y = context.pass.unread ? std::move(x.value) : apply(std::move(x.value));
  auto backward = [apply](GradientFlow& flow) { flow.give(0, apply(flow.take(0))); };
  return context.record("scale", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

Var mean_of_rows(Context& context, const Var& x, const SequenceRows& rows) {
  DS_CHECK(rows.key_ranges.defined(), "mean of rows: nothing says which of them are padding");
  Stream& stream = context.stream;
  Tensor y = Tensor::empty(x.value.shape(), x.value.dtype(), stream);
  kernels::mean_rows(stream, x.value, rows.key_ranges, rows.length, y);
  auto backward = [&stream, ranges = rows.key_ranges, length = rows.length](GradientFlow& flow) {
    const Tensor dy = flow.take(0);
    Tensor dx = Tensor::empty(dy.shape(), dy.dtype(), stream);
    kernels::mean_rows_backward(stream, dy, ranges, length, dx);
    flow.give(0, std::move(dx));
  };
  return context.record("mean_rows", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

Var activated(Context& context, const Var& x, kernels::Activation activation) {
  if (activation == kernels::Activation::kNone) return x;
  Stream& stream = context.stream;
  Tensor y = Tensor::empty(x.value.shape(), x.value.dtype(), stream);
  kernels::activation_forward(stream, activation, x.value, y);
  auto backward = [&stream, activation,
                   x_saved = context.save(x.value)](GradientFlow& flow) mutable {
    Tensor dx = own(stream, flow.take(0));
    kernels::activation_backward(stream, activation, take(x_saved), dx, dx);
    flow.give(0, std::move(dx));
  };
  return context.record("activation", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

namespace {

void require_orders(const TokenRows& tokens, const EmbeddingSpec& spec, bool own_positions) {
  DS_CHECK(tokens.order.defined() && (!own_positions || tokens.position_order.defined()) &&
               (spec.segments == kNoParam || tokens.segment_order.defined()),
           "embed: its gradient needs the order of the tokens, of the rows' own positions, and of "
           "segments");
}

// The sum of the rows of all tables, as far as they are added here.
void sum_of_tables(Context& context, const TokenRows& tokens, const EmbeddingSpec& spec,
                   const kernels::TablePart& part, Tensor& y) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  const bool adds = adds_what_all_have(context);
  std::optional<Lease> positions, segments;
  const Lease table = store.acquire(spec.table);
  if (spec.positions != kNoParam) positions.emplace(store.acquire(spec.positions));
  if (spec.segments != kNoParam) segments.emplace(store.acquire(spec.segments));
  const Tensor added =
      positions && adds ? from_row(positions->weight(), spec.first_position) : Tensor();
  look_up(stream, tokens, table.weight(), added, positions && tokens.rows.own_positions.defined(),
          part, y);
  if (segments) add_rows(stream, tokens.segments, adds ? segments->weight() : Tensor(), y);
}

}  // namespace

Var embed(Context& context, const TokenRows& tokens, DType dtype, const EmbeddingSpec& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  const bool own_positions = tokens.rows.own_positions.defined() && spec.positions != kNoParam;
  DS_CHECK(spec.segments == kNoParam || tokens.segments.defined(), "embed: rows without segments");
  if (context.differentiates()) require_orders(tokens, spec, own_positions);
  const kernels::TablePart part = table_part(store.spec(spec.table));
  Tensor y = Tensor::empty({tokens.tokens.numel(), spec.width}, dtype, stream);
  {
    const Span span(stream, module_label(store, spec.table));
    sum_of_tables(context, tokens, spec, part, y);
    y = sum_of_tensor(context, std::move(y));
  }
  Communicator* const rows_of = context.parallel.row_group();
  // Orders are not saved: they lie in the micro-batch, which stays.
  auto backward = [&stream, &store, spec, part, rows_of, own_positions,
                   kept = tokens](GradientFlow& flow) mutable {
    Tensor given = flow.take(0);
    if (rows_of != nullptr) given = rows_of_all(stream, *rows_of, given);
    flow.later([&stream, &store, spec, part, own_positions, tokens = std::move(kept),
                dy = std::move(given)] {
      if (spec.segments != kNoParam) {
        GradSlot slot = store.grad_slot(spec.segments);
        kernels::embedding_backward(stream, tokens.segment_order, dy, slot.write, slot.grad);
        store.grad_ready(spec.segments);
      }
      if (spec.positions != kNoParam) {
        GradSlot slot = from_row(stream, store.grad_slot(spec.positions), spec.first_position);
        if (own_positions) {
          kernels::embedding_backward(stream, tokens.position_order, dy, slot.write, slot.grad);
        } else {
          add_positions(stream, dy, tokens.rows.length, tokens.rows.positions, slot);
        }
        store.grad_ready(spec.positions);
      }
      GradSlot slot = store.grad_slot(spec.table);
      kernels::embedding_backward(stream, tokens.order, dy, slot.write, slot.grad, part);
      store.rows_touched(spec.table, tokens.order);
      store.grad_ready(spec.table);
    });
  };
  return context.record("embedding", {}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace ds
