#include "model/exchange/tensor.h"
#include "model/functions/functions.h"
#include "model/functions/linear_products.h"
#include "model/pass/module_label.h"

namespace ds {

int64_t LinearSpec::out() const {
  int64_t sum = 0;
  for (const LinearPart& part : parts) sum += part.out;
  return sum;
}

Var linear(Context& context, const Var& x, const LinearSpec& spec) {
  DS_CHECK(x.value.shape().rank() == 2 && x.value.shape()[1] == spec.in,
           "linear: x has shape {}, expected [N, {}]", x.value.shape().to_string(), spec.in);
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  Tensor y = room_for_outputs(context, spec, x.value);
  const Tensor input = as_operand(stream, x.value, context.pass.operands);
  const DroppedRows rows = rows_of_pass(context);
  Projected projected;
  if (makes_products(context, spec)) {
    const Span span(stream, module_label(store, spec.parts.front().weight));
    const bool adds_bias = !spec.is_part_of_sum || adds_what_all_have(context);
    projected = project(stream, store, spec, rows, input, {.adds_bias = adds_bias}, y);
  }

  const Tensor kept = has_training_weights(store, spec) ? input : Tensor();
  auto backward = [&stream, &store, spec, rows, operands = context.pass.operands,
                   x_saved = context.save(kept),
                   kept_projected =
                       SavedProjection(context, std::move(projected))](GradientFlow& flow) mutable {
    // Gradients first: they can be on their way to the other ranks while dx is computed, and x can
    // go.
    const Tensor dy = write_parameter_gradients_later(
        flow, stream, store, spec, rows, take(x_saved), kept_projected.take(), flow.take(0));
    if (flow.wanted(0)) flow.give(0, input_gradient(stream, store, spec, rows, dy, operands));
  };
  return context.record("linear", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace ds
