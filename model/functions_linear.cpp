#include <optional>

#include "kernels/elementwise.h"
#include "kernels/gemm/matmul.h"
#include "kernels/reduce.h"
#include "model/functions.h"

namespace ds {
namespace {

using kernels::MatrixView;
using kernels::Transpose;
using kernels::Write;

MatrixView weight_view(const Tensor& weight, const LinearSpec& spec, const LinearPart& part) {
  return spec.layout == WeightLayout::kOutIn ? kernels::matrix(weight, part.out, spec.in)
                                             : kernels::matrix(weight, spec.in, part.out);
}

void project(Context& context, const Tensor& x, const LinearSpec& spec, Tensor& y,
             const Tensor& pre_activation) {
  const int64_t rows = x.shape()[0];
  int64_t column = 0;
  for (const LinearPart& part : spec.parts) {
    const Lease weight = context.store.acquire(part.weight);
    std::optional<Lease> bias;
    if (part.bias != kNoParam) bias.emplace(context.store.acquire(part.bias));
    kernels::matmul(
        context.stream,
        {.a = kernels::matrix(x, rows, spec.in),
         .b = weight_view(weight.weight(), spec, part),
         .c = kernels::columns_of(kernels::matrix(y, rows, spec.out()), column, part.out),
         .transpose_b = spec.layout == WeightLayout::kOutIn ? Transpose::kYes : Transpose::kNo,
         .bias = bias ? bias->weight() : Tensor(),
         .activation = spec.activation,
         .pre_activation = pre_activation});
    column += part.out;
  }
}

// dW = x^T * dy (kInOut) or dy^T * x (kOutIn).
void write_weight_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                            const Tensor& x, const Tensor& dy) {
  const int64_t rows = x.shape()[0];
  const MatrixView whole = kernels::matrix(dy, rows, spec.out());
  const MatrixView input = kernels::matrix(x, rows, spec.in);
  int64_t column = 0;
  for (const LinearPart& part : spec.parts) {
    const MatrixView output = kernels::columns_of(whole, column, part.out);
    const bool out_in = spec.layout == WeightLayout::kOutIn;
    GradSlot slot = store.grad_slot(part.weight);
    kernels::matmul(stream, {.a = out_in ? output : input,
                             .b = out_in ? input : output,
                             .c = weight_view(slot.grad, spec, part),
                             .transpose_a = Transpose::kYes,
                             .write = slot.write});
    store.grad_ready(part.weight);
    column += part.out;
  }
}

void write_slice(Stream& stream, const Tensor& from, GradSlot& slot) {
  if (slot.write == Write::kOverwrite) {
    kernels::cast(stream, from, slot.grad);
  } else {
    kernels::accumulate(stream, from, slot.grad);
  }
}

// db = sum of the rows of dy.
void write_bias_gradients(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                          const Tensor& dy) {
  bool any = false;
  for (const LinearPart& part : spec.parts) any = any || part.bias != kNoParam;
  if (!any) return;
  if (spec.parts.size() == 1) {
    GradSlot slot = store.grad_slot(spec.parts[0].bias);
    kernels::column_sum(stream, dy, slot.write, slot.grad);
    store.grad_ready(spec.parts[0].bias);
    return;
  }
  Tensor sums = Tensor::empty({spec.out()}, DType::kF32, stream, MemoryTag::kScratch);
  kernels::column_sum(stream, dy, Write::kOverwrite, sums);
  int64_t column = 0;
  for (const LinearPart& part : spec.parts) {
    if (part.bias != kNoParam) {
      GradSlot slot = store.grad_slot(part.bias);
      write_slice(stream, sums.narrow(column, part.out), slot);
      store.grad_ready(part.bias);
    }
    column += part.out;
  }
}

// dx = dy * W (kOutIn) or dy * W^T (kInOut), summed over the parts.
Tensor input_gradient(Stream& stream, ParameterStore& store, const LinearSpec& spec,
                      const Tensor& dy) {
  const int64_t rows = dy.shape()[0];
  Tensor dx = Tensor::empty({rows, spec.in}, dy.dtype(), stream);
  const MatrixView whole = kernels::matrix(dy, rows, spec.out());
  int64_t column = 0;
  for (const LinearPart& part : spec.parts) {
    const Lease weight = store.acquire(part.weight);
    kernels::matmul(stream, {.a = kernels::columns_of(whole, column, part.out),
                             .b = weight_view(weight.weight(), spec, part),
                             .c = kernels::matrix(dx, rows, spec.in),
                             .transpose_b = spec.layout == WeightLayout::kOutIn ? Transpose::kNo
                                                                                : Transpose::kYes,
                             .write = column == 0 ? Write::kOverwrite : Write::kAccumulate});
    column += part.out;
  }
  return dx;
}

Tensor undo_activation(Stream& stream, kernels::Activation activation, const Tensor& pre_activation,
                       Tensor dy) {
  Tensor dx = dy.is_sole_owner() ? dy : Tensor::empty(dy.shape(), dy.dtype(), stream);
  kernels::activation_backward(stream, activation, pre_activation, dy, dx);
  return dx;
}

}  // namespace

int64_t LinearSpec::out() const {
  int64_t sum = 0;
  for (const LinearPart& part : parts) sum += part.out;
  return sum;
}

Var linear(Context& context, const Var& x, const LinearSpec& spec) {
  const bool activates = spec.activation != kernels::Activation::kNone;
  DS_CHECK(x.value.shape().rank() == 2 && x.value.shape()[1] == spec.in,
           "linear: x has shape {}, expected [N, {}]", x.value.shape().to_string(), spec.in);
  DS_CHECK(!activates || spec.parts.size() == 1, "linear: an activation over {} weights",
           spec.parts.size());
  const Shape shape{x.value.shape()[0], spec.out()};
  Stream& stream = context.stream;
  ParameterStore& store = context.store;
  Tensor pre_activation;
  if (activates && context.differentiates()) {
    pre_activation = Tensor::empty(shape, x.value.dtype(), stream);
  }
  Tensor y = Tensor::empty(shape, x.value.dtype(), stream);
  project(context, x.value, spec, y, pre_activation);

  auto backward = [&stream, &store, spec, x_saved = context.save(x.value),
                   pre_saved = activates ? context.save(pre_activation)
                                         : Saved()](GradientFlow& flow) mutable {
    Tensor dy = flow.take(0);
    if (pre_saved) dy = undo_activation(stream, spec.activation, take(pre_saved), std::move(dy));
    // Gradients first: they can be on their way to the other ranks while dx is computed, and x can
    // go.
    flow.later([&stream, &store, spec, x = take(x_saved), dy] {
      write_weight_gradients(stream, store, spec, x, dy);
    });
    flow.later([&stream, &store, spec, dy] { write_bias_gradients(stream, store, spec, dy); });
    if (flow.wanted(0)) flow.give(0, input_gradient(stream, store, spec, dy));
  };
  pre_activation = Tensor();
  return context.record("linear", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace ds
