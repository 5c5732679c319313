#include "model/functions/adapters.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"

namespace ds {
namespace {

using kernels::MatrixView;
using kernels::Transpose;
using kernels::Write;

// Calls use(adapter, first column, columns) for each part that has an adapter.
void for_each_adapter(const LinearSpec& spec, const auto& use) {
  int64_t column = 0;
  for (const LinearPart& part : spec.parts) {
    if (part.adapter) use(*part.adapter, column, part.out);
    column += part.out;
  }
}

MatrixView whole(const Tensor& x) { return kernels::matrix(x, x.shape()[0], x.shape()[1]); }

// s x A^T [N, r].
Tensor inner(Stream& stream, ParameterStore& store, const Adapter& adapter, const Tensor& x) {
  const Lease a = store.acquire(adapter.a);
  Tensor t = Tensor::empty({x.shape()[0], adapter.rank}, x.dtype(), stream);
  kernels::matmul(stream, {.a = whole(x),
                           .b = whole(as_operand(stream, a.weight(), x.dtype())),
                           .c = whole(t),
                           .transpose_b = Transpose::kYes});
  kernels::scale(stream, adapter.scale, t);
  return t;
}

// s dy B [N, r], of the columns of dy that are the part's.
Tensor inner_gradient(Stream& stream, ParameterStore& store, const Adapter& adapter,
                      const MatrixView& dy) {
  const Lease b = store.acquire(adapter.b);
  Tensor dt = Tensor::empty({dy.rows, adapter.rank}, dy.tensor.dtype(), stream);
  kernels::matmul(
      stream,
      {.a = dy, .b = whole(as_operand(stream, b.weight(), dy.tensor.dtype())), .c = whole(dt)});
  kernels::scale(stream, adapter.scale, dt);
  return dt;
}

// left^T right into the parameter's slot.
void write_product(Stream& stream, ParameterStore& store, ParamId id, const MatrixView& left,
                   const MatrixView& right) {
  const GradSlot slot = store.grad_slot(id);
  kernels::matmul(stream, {.a = left,
                           .b = right,
                           .c = whole(slot.grad),
                           .transpose_a = Transpose::kYes,
                           .write = slot.write});
}

}  // namespace

bool has_adapters(const LinearSpec& spec) {
  return std::ranges::any_of(spec.parts,
                             [](const LinearPart& part) { return part.adapter.has_value(); });
}

bool has_training_adapters(const ParameterStore& store, const LinearSpec& spec) {
  return std::ranges::any_of(spec.parts, [&](const LinearPart& part) {
    return part.adapter && (store.trains(part.adapter->a) || store.trains(part.adapter->b));
  });
}

void add_adapters(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                  const DroppedRows& rows, const Tensor& x, Tensor& y) {
  const MatrixView output = whole(y);
  for_each_adapter(spec, [&](const Adapter& adapter, int64_t column, int64_t columns) {
    const Tensor t =
        inner(stream, store, adapter, dropped(stream, rows, adapter.dropout, Tensor(x)));
    const Lease b = store.acquire(adapter.b);
    kernels::matmul(stream, {.a = whole(t),
                             .b = whole(as_operand(stream, b.weight(), x.dtype())),
                             .c = kernels::columns_of(output, column, columns),
                             .transpose_b = Transpose::kYes,
                             .write = Write::kAccumulate});
  });
}

void write_adapter_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                             const DroppedRows& rows, const Tensor& x, const Tensor& dy) {
  const MatrixView output = whole(dy);
  for_each_adapter(spec, [&](const Adapter& adapter, int64_t column, int64_t columns) {
    const MatrixView of_part = kernels::columns_of(output, column, columns);
    const Tensor kept = dropped(stream, rows, adapter.dropout, Tensor(x));
    if (store.trains(adapter.b)) {
      const Tensor t = inner(stream, store, adapter, kept);
      write_product(stream, store, adapter.b, of_part, whole(t));
      store.grad_ready(adapter.b);
    }
    if (store.trains(adapter.a)) {
      const Tensor dt = inner_gradient(stream, store, adapter, of_part);
      write_product(stream, store, adapter.a, whole(dt), whole(kept));
      store.grad_ready(adapter.a);
    }
  });
}

void add_adapter_input_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                                 const DroppedRows& rows, const Tensor& dy, Tensor& dx) {
  const MatrixView output = whole(dy);
  for_each_adapter(spec, [&](const Adapter& adapter, int64_t column, int64_t columns) {
    const Tensor dt =
        inner_gradient(stream, store, adapter, kernels::columns_of(output, column, columns));
    const Lease a = store.acquire(adapter.a);
    const MatrixView factor = whole(as_operand(stream, a.weight(), dy.dtype()));
    if (!drops(rows, adapter.dropout)) {
      kernels::matmul(stream,
                      {.a = whole(dt), .b = factor, .c = whole(dx), .write = Write::kAccumulate});
      return;
    }
    Tensor of_dropped = Tensor::empty(dx.shape(), dx.dtype(), stream);
    kernels::matmul(stream, {.a = whole(dt), .b = factor, .c = whole(of_dropped)});
    of_dropped = dropped(stream, rows, adapter.dropout, std::move(of_dropped));
    kernels::accumulate(stream, of_dropped, dx);
  });
}

}  // namespace ds
