#include "model/activations/tiles.h"
#include "model/exchange/tensor.h"
#include "model/functions/functions.h"
#include "model/functions/linear_products.h"
#include "model/pass/module_label.h"

namespace ds {
namespace {

struct Inner {
  Tensor before;  // [N, F], or [N, 2F] with a gate; undefined where nobody wants it again
  Tensor after;   // [N, F]
  Projected projected;
};

Projected project_in_module(Context& context, const LinearSpec& spec, const Tensor& x,
                            const Epilogue& epilogue, Tensor& y) {
  const Span span(context.stream, module_label(*context.store, spec.parts.front().weight));
  return project(context.stream, *context.store, spec, rows_of_pass(context), x, epilogue, y);
}

// `dtype`: of what comes out of the product with x.
Inner activate(Context& context, const MlpSpec& spec, const Tensor& x, DType dtype) {
  Stream& stream = context.stream;
  const Shape shape{x.shape()[0], spec.down.in};
  const Shape wide{x.shape()[0], spec.up.out()};
  Inner inner;
  if (spec.has_gate) {
    inner.before = Tensor::empty(wide, dtype, stream);
    inner.projected = project_in_module(context, spec.up, x, {}, inner.before);
    inner.after = Tensor::empty(shape, dtype, stream);
    kernels::glu_forward(stream, spec.activation, inner.before, inner.after);
    if (!context.differentiates()) inner.before = Tensor();
    return inner;
  }
  if (context.differentiates()) inner.before = Tensor::empty(wide, dtype, stream);
  inner.after = Tensor::empty(shape, dtype, stream);
  inner.projected = project_in_module(
      context, spec.up, x, {.activation = spec.activation, .pre_activation = inner.before},
      inner.after);
  return inner;
}

// The gradient before the activation, [N, F] or [N, 2F], from the layer's. `dy` is let go before
// the gate is undone.
Tensor inner_gradient(Stream& stream, ParameterStore& store, const MlpSpec& spec,
                      const DroppedRows& rows, Operands operands, const Tensor& before, Tensor dy) {
  if (!spec.has_gate) {
    return input_gradient(stream, store, spec.down, rows, dy, operands, {spec.activation, before});
  }
  const Tensor gradient = input_gradient(stream, store, spec.down, rows, dy, operands);
  dy = Tensor();
  Tensor wide = Tensor::empty(before.shape(), before.dtype(), stream);
  kernels::glu_backward(stream, spec.activation, before, gradient, wide);
  return wide;
}

void check(const MlpSpec& spec, const Tensor& x) {
  DS_CHECK(x.shape().rank() == 2 && x.shape()[1] == spec.up.in,
           "mlp: x has shape {}, expected [N, {}]", x.shape().to_string(), spec.up.in);
  const bool gated = spec.has_gate;
  DS_CHECK(!gated || spec.activation != kernels::Activation::kNone,
           "mlp: a gate without a function behind it");
  DS_CHECK(spec.up.out() == (gated ? 2 : 1) * spec.down.in, "mlp: {} columns go up{}, {} come down",
           spec.up.out(), gated ? " with the gate" : "", spec.down.in);
  DS_CHECK(gated || spec.up.parts.size() == 1, "mlp: an activation over {} weights",
           spec.up.parts.size());
}

Var mlp_at_once(Context& context, const Var& x, const MlpSpec& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  Tensor input = as_operand(stream, x.value, context.pass.operands);
  Inner inner = activate(context, spec, input, x.value.dtype());
  inner.after = as_operand(stream, inner.after, context.pass.operands);
  Tensor y = room_for_outputs(context, spec.down, x.value);
  Projected down;
  if (makes_products(context, spec.down)) {
    const bool adds_bias = !spec.down.is_part_of_sum || adds_what_all_have(context);
    down = project_in_module(context, spec.down, inner.after, {.adds_bias = adds_bias}, y);
  }

  // Inputs of products whose weights are frozen are read by nobody again.
  if (!has_training_weights(store, spec.up)) input = Tensor();
  if (!has_training_weights(store, spec.down)) inner.after = Tensor();
  auto backward = [&stream, &store, spec, rows = rows_of_pass(context),
                   operands = context.pass.operands, x_saved = context.save(input),
                   before_saved = context.save(inner.before),
                   after_saved = context.save(inner.after),
                   up_saved = SavedProjection(context, std::move(inner.projected)),
                   down_saved =
                       SavedProjection(context, std::move(down))](GradientFlow& flow) mutable {
    // Gradients of parameters first: they can be on their way to the other ranks while the next
    // product runs, and what they were made of can go.
    Tensor dy = write_parameter_gradients_later(flow, stream, store, spec.down, rows,
                                                take(after_saved), down_saved.take(), flow.take(0));
    Tensor dinner =
        inner_gradient(stream, store, spec, rows, operands, take(before_saved), std::move(dy));
    dinner = write_parameter_gradients_later(flow, stream, store, spec.up, rows, take(x_saved),
                                             up_saved.take(), std::move(dinner));
    if (flow.wanted(0))
      flow.give(0, input_gradient(stream, store, spec.up, rows, dinner, operands));
  };
  inner = {};
  input = Tensor();
  return context.record("mlp", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace

Var mlp(Context& context, const Var& x, const MlpSpec& spec) {
  check(spec, x.value);
  const Tiling tiling{.name = "mlp", .tiles = context.pass.mlp_tiles, .width = spec.down.out()};
  return in_tiles(context, tiling, x, [spec](Context& inside, const Var& rows) {
    return mlp_at_once(inside, rows, spec);
  });
}

}  // namespace ds
