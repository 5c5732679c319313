#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "model/exchange/sequence.h"
#include "model/exchange/tensor.h"
#include "model/functions/functions.h"
#include "model/pass/module_label.h"
#include "model/pass/own.h"

namespace ds {
namespace {

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

// y += positions, each sequence from its first one on. y: rows from `first` on, of `all`.
void add_shared_positions(Stream& stream, const SequenceRows& rows, int64_t all, int64_t first,
                          const Tensor& positions, Tensor& y) {
  const int64_t last = first + y.shape()[0];
  for (const RowBlock& block : row_blocks(all, rows.length, rows.positions)) {
    for (int64_t row = block.row; row < block.row + block.rows; row += block.length) {
      const int64_t begin = std::max(row, first), end = std::min(row + block.length, last);
      if (begin >= end) continue;
      Tensor to = rows_of(y, begin - first, end - begin);
      kernels::add(stream, rows_of(positions, block.first_position + begin - row, end - begin), to,
                   to);
    }
  }
}

bool has_own_positions(const TokenRows& tokens, const EmbeddingSpec& spec) {
  return tokens.rows.own_positions.defined() && spec.positions != kNoParam;
}

void require_orders(const TokenRows& tokens, const EmbeddingSpec& spec) {
  DS_CHECK(tokens.order.defined() &&
               (!has_own_positions(tokens, spec) || tokens.position_order.defined()) &&
               (spec.segments == kNoParam || tokens.segment_order.defined()),
           "embed: its gradient needs the order of the tokens, of the rows' own positions, and of "
           "segments");
}

// The tables of a spec as they are looked up, those that it has.
struct LeasedTables {
  LeasedTables(ParameterStore& store, const EmbeddingSpec& spec) {
    if (spec.table != kNoParam) table.emplace(store.acquire(spec.table));
    if (spec.positions != kNoParam) positions.emplace(store.acquire(spec.positions));
    if (spec.segments != kNoParam) segments.emplace(store.acquire(spec.segments));
  }
  std::optional<Lease> table, positions, segments;
};

// The sum of the rows of all tables, as far as they are added here.
void sum_of_tables(Context& context, const TokenRows& tokens, const EmbeddingSpec& spec,
                   Tensor& y) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  const LeasedTables tables(store, spec);
  const bool adds = adds_what_all_have(context);
  const Tensor added = tables.positions && adds
                           ? from_row(tables.positions->weight(), spec.first_position)
                           : Tensor();
  look_up(stream, tokens, tables.table->weight(), added, has_own_positions(tokens, spec),
          table_part(store.spec(spec.table)), y);
  if (!tables.segments) return;
  add_rows(stream, tokens.segments, adds ? tables.segments->weight() : Tensor(), y);
}

// y += the rows of all tables but that of tokens, for the rows that are here.
void add_other_tables(Context& context, const TokenRows& tokens, const EmbeddingSpec& spec,
                      Tensor& y) {
  Stream& stream = context.stream;
  const LeasedTables tables(*context.store, spec);
  const int64_t count = y.shape()[0], first = rows_before(context, count);
  if (tables.positions) {
    const Tensor added = from_row(tables.positions->weight(), spec.first_position);
    if (has_own_positions(tokens, spec)) {
      add_rows(stream, tokens.rows.own_positions.narrow(first, count), added, y);
    } else {
      add_shared_positions(stream, tokens.rows, tokens.tokens.numel(), first, added, y);
    }
  }
  if (!tables.segments) return;
  add_rows(stream, tokens.segments.narrow(first, count), tables.segments->weight(), y);
}

bool any_trains(const ParameterStore& store, const EmbeddingSpec& spec) {
  return store.trains(spec.table) || store.trains(spec.positions) || store.trains(spec.segments);
}

// Adds the rows of dy to the gradients of all tables that train.
void add_to_tables(Stream& stream, ParameterStore& store, const EmbeddingSpec& spec,
                   const TokenRows& tokens, const Tensor& dy) {
  if (store.trains(spec.segments)) {
    GradSlot slot = store.grad_slot(spec.segments);
    kernels::embedding_backward(stream, tokens.segment_order, dy, slot.write, slot.grad);
    store.grad_ready(spec.segments);
  }
  if (store.trains(spec.positions)) {
    GradSlot slot = from_row(stream, store.grad_slot(spec.positions), spec.first_position);
    if (has_own_positions(tokens, spec)) {
      kernels::embedding_backward(stream, tokens.position_order, dy, slot.write, slot.grad);
    } else {
      add_positions(stream, dy, tokens.rows.length, tokens.rows.positions, slot);
    }
    store.grad_ready(spec.positions);
  }
  if (!store.trains(spec.table)) return;
  GradSlot slot = store.grad_slot(spec.table);
  kernels::embedding_backward(stream, tokens.order, dy, slot.write, slot.grad,
                              table_part(store.spec(spec.table)));
  store.rows_touched(spec.table, tokens.order);
  store.grad_ready(spec.table);
}

// Gradients of the tables of a spec, once that of what they gave is there: of all rows.
void add_to_tables_later(GradientFlow& flow, Stream& stream, ParameterStore& store,
                         Communicator* rows_of, const EmbeddingSpec& spec, TokenRows tokens,
                         Tensor given) {
  if (!any_trains(store, spec)) return;
  if (rows_of != nullptr) given = rows_of_all(stream, *rows_of, given);
  flow.later([&stream, &store, spec, kept = std::move(tokens), dy = std::move(given)] {
    add_to_tables(stream, store, spec, kept, dy);
  });
}

Var look_up_all(Context& context, const TokenRows& tokens, DType dtype, const EmbeddingSpec& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  Tensor y = Tensor::empty({tokens.tokens.numel(), spec.width}, dtype, stream);
  {
    const Span span(stream, module_label(store, spec.table));
    sum_of_tables(context, tokens, spec, y);
    y = sum_of_tensor(context, std::move(y));
  }
  // Orders are not saved: they lie in the micro-batch, which stays.
  auto backward = [&stream, &store, spec, rows_of = context.parallel.row_group(),
                   kept = tokens](GradientFlow& flow) mutable {
    add_to_tables_later(flow, stream, store, rows_of, spec, std::move(kept), flow.take(0));
  };
  return context.record("embedding", {}, {std::move(y)}, std::move(backward)).front();
}

// x and what the rows of the other tables are.
Var with_other_tables(Context& context, const TokenRows& tokens, const EmbeddingSpec& spec, Var x) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  Tensor y = own(stream, std::move(x.value));
  {
    const Span span(stream, module_label(store, spec.positions));
    add_other_tables(context, tokens, spec, y);
  }
  auto backward = [&stream, &store, spec, rows_of = context.parallel.row_group(),
                   kept = tokens](GradientFlow& flow) mutable {
    Tensor dy = flow.take(0);
    flow.give(0, dy);
    add_to_tables_later(flow, stream, store, rows_of, spec, std::move(kept), std::move(dy));
  };
  return context.record("embedding", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace

Var embed(Context& context, const TokenRows& tokens, DType dtype, const EmbeddingSpec& spec) {
  DS_CHECK(spec.segments == kNoParam || tokens.segments.defined(), "embed: rows without segments");
  if (context.differentiates()) require_orders(tokens, spec);
  if (!spec.projection) return look_up_all(context, tokens, dtype, spec);
  const EmbeddingSpec words{.table = spec.table, .width = spec.projection->in};
  EmbeddingSpec others = spec;
  others.table = kNoParam;
  DS_CHECK(others.positions != kNoParam, "embed: a projection without positions behind it");
  const Var narrow_rows = look_up_all(context, tokens, dtype, words);
  return with_other_tables(context, tokens, others, linear(context, narrow_rows, *spec.projection));
}

}  // namespace ds
