#include "model/functions/functions.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/pooling/pooling.h"
#include "model/exchange/tensor.h"
#include "model/functions/row_dropout.h"
#include "model/pass/own.h"

namespace ds {

Var dropout(Context& context, Var x, const DropoutSpec& spec, int64_t length) {
  if (context.pass.mode != RunMode::kTrain || spec.p == 0) return x;
  Stream& stream = context.stream;
  const DroppedRows rows{.micro = context.pass.micro,
                         .parallel = &context.parallel,
                         .length = length,
                         .first = rows_before(context, x.value.shape()[0])};
  const auto apply = [&stream, rows, spec](Tensor given) {
    return dropped(stream, rows, spec, std::move(given));
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

}  // namespace ds
