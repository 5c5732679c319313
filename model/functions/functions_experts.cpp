#include <utility>

#include "config/families/spec/limits.h"
#include "core/values/index.h"
#include "kernels/matmul/matmul.h"
#include "kernels/moe/expert_order.h"
#include "kernels/moe/expert_rows.h"
#include "kernels/moe/grouped_matmul.h"
#include "kernels/moe/route.h"
#include "model/activations/tiles.h"
#include "model/functions/experts.h"
#include "model/pass/module_label.h"

namespace ds {
namespace {

using kernels::Transpose;
using kernels::Write;

static_assert(kMostExperts == kernels::kMostExperts && kMostExpertChoices == kernels::kMostChoices);

// Which experts have which tokens, for both passes.
struct Routing {
  Tensor scores;   // fp32 [N, experts]
  Tensor experts;  // int32 [N, k]
  Tensor weights;  // fp32 [N, k]
  kernels::ExpertOrder order;
};

// Whole parameters in the dtype of operands, and which stream, while they are needed.
class Layer {
 public:
  Layer(Stream& stream, ParameterStore& store, const ExpertLayer& spec, Operands operands)
      : stream_(stream), store_(store), spec_(spec), operands_(operands) {}

  // rows [M, K] -> [M, columns], each by its expert's matrix of a parameter [experts, A, B].
  Tensor product(const Tensor& rows, ParamId weights, const Tensor& offsets, int64_t columns,
                 Transpose transpose) const {
    const Lease lease = store_.acquire(weights);
    const int64_t count = rows.shape()[0];
    Tensor out = Tensor::empty({count, columns}, rows.dtype(), stream_);
    kernels::grouped_matmul(stream_, {.rows = as_operand(stream_, rows, operands_),
                                      .weights = as_operand(stream_, lease.weight(), operands_),
                                      .offsets = offsets,
                                      .depth = rows.shape()[1],
                                      .transpose_weights = transpose,
                                      .out = out});
    return out;
  }
  // The gradient of a parameter [experts, A, B] of products: a [M, A], b [M, B].
  void write_gradient(ParamId weights, const Tensor& a, const Tensor& b,
                      const Tensor& offsets) const {
    const GradSlot slot = store_.grad_slot(weights);
    kernels::grouped_matmul_weights(stream_, {.a = as_operand(stream_, a, operands_),
                                              .b = as_operand(stream_, b, operands_),
                                              .offsets = offsets,
                                              .out = slot.grad,
                                              .a_columns = a.shape()[1],
                                              .b_columns = b.shape()[1],
                                              .write = slot.write});
    store_.grad_ready(weights);
  }

  Tensor logits(const Tensor& x) const {
    const Span span(stream_, module_label(store_, spec_.router));
    const Lease lease = store_.acquire(spec_.router);
    const int64_t rows = x.shape()[0], count = spec_.rule.experts;
    Tensor logits = Tensor::empty({rows, count}, DType::kF32, stream_);
    const Tensor input = as_operand(stream_, x, operands_);
    const Tensor weight = as_operand(stream_, lease.weight(), operands_);
    kernels::matmul(stream_, {.a = kernels::matrix(input, rows, spec_.width),
                              .b = kernels::matrix(weight, count, spec_.width),
                              .c = kernels::matrix(logits, rows, count),
                              .transpose_b = Transpose::kYes});
    return logits;
  }
  // dx += dlogits * W; dlogits [N, experts] in the dtype of x.
  void add_input_gradient(const Tensor& dlogits, Tensor& dx) const {
    const Lease lease = store_.acquire(spec_.router);
    const int64_t rows = dx.shape()[0], count = spec_.rule.experts;
    const Tensor output = as_operand(stream_, dlogits, operands_);
    const Tensor weight = as_operand(stream_, lease.weight(), operands_);
    kernels::matmul(stream_, {.a = kernels::matrix(output, rows, count),
                              .b = kernels::matrix(weight, count, spec_.width),
                              .c = kernels::matrix(dx, rows, spec_.width),
                              .write = Write::kAccumulate});
  }
  void write_router_gradient(const Tensor& dlogits, const Tensor& x) const {
    const GradSlot slot = store_.grad_slot(spec_.router);
    const int64_t rows = x.shape()[0], count = spec_.rule.experts;
    const Tensor output = as_operand(stream_, dlogits, operands_);
    const Tensor input = as_operand(stream_, x, operands_);
    kernels::matmul(stream_, {.a = kernels::matrix(output, rows, count),
                              .b = kernels::matrix(input, rows, spec_.width),
                              .c = kernels::matrix(slot.grad, count, spec_.width),
                              .transpose_a = Transpose::kYes,
                              .write = slot.write});
    store_.grad_ready(spec_.router);
  }

  // Each token's row as often as it has experts, in their order.
  Tensor rows_there(const Tensor& x, const Routing& routing, const Tensor& weights) const {
    Tensor rows = Tensor::empty({routing.order.order.numel(), spec_.width}, x.dtype(), stream_);
    kernels::gather_expert_rows(
        stream_,
        {.shape = shape(), .x = x, .order = routing.order.order, .weights = weights, .rows = rows});
    return rows;
  }
  Tensor rows_back(const Tensor& rows, const Routing& routing, const Tensor& weights,
                   int64_t tokens) const {
    Tensor y = Tensor::empty({tokens, spec_.width}, rows.dtype(), stream_);
    kernels::return_expert_rows(
        stream_,
        {.shape = shape(), .rows = rows, .place = routing.order.place, .weights = weights, .y = y});
    return y;
  }

  Routing route(const Tensor& x, bool keeps_scores) const {
    const int64_t tokens = x.shape()[0], k = spec_.rule.choices;
    Routing routing;
    routing.experts = integers({tokens, k});
    routing.weights = Tensor::empty({tokens, k}, DType::kF32, stream_);
    const Tensor all = logits(x);
    if (keeps_scores) routing.scores = Tensor::empty(all.shape(), DType::kF32, stream_);
    kernels::route(stream_, {.rule = spec_.rule,
                             .logits = all,
                             .experts = routing.experts,
                             .weights = routing.weights,
                             .scores = routing.scores});
    routing.order = {.counts = integers({spec_.rule.experts}),
                     .offsets = integers({spec_.rule.experts + 1}),
                     .order = integers({tokens * k}),
                     .place = integers({tokens * k})};
    kernels::sort_by_expert(stream_, routing.experts, k, kernels::ChoiceOrder::kByToken,
                            routing.order);
    return routing;
  }
  // The gradient of the router's logits, in the dtype of x, from that of the layer's outputs.
  // `rows`: what experts gave.
  Tensor logits_gradient(const Routing& routing, const Tensor& rows, const Tensor& dy) const {
    Tensor dweights = Tensor::empty(routing.weights.shape(), DType::kF32, stream_);
    kernels::expert_row_dots(stream_, {.shape = shape(),
                                       .rows = rows,
                                       .place = routing.order.place,
                                       .weights = dweights,
                                       .y = dy});
    Tensor dlogits = Tensor::empty(routing.scores.shape(), DType::kF32, stream_);
    kernels::route_backward(stream_, {.rule = spec_.rule,
                                      .scores = routing.scores,
                                      .experts = routing.experts,
                                      .dweights = dweights,
                                      .dlogits = dlogits});
    return as_value(stream_, std::move(dlogits), dy.dtype());
  }

 private:
  kernels::RowsOfTokens shape() const {
    return {.choices = spec_.rule.choices, .columns = spec_.width};
  }
  Tensor integers(const Shape& shape) const { return Tensor::empty(shape, DType::kI32, stream_); }

  Stream& stream_;
  ParameterStore& store_;
  const ExpertLayer& spec_;
  Operands operands_;
};

// What the backward pass reads again.
struct Kept {
  Saved x, before, after, rows;
  Routing routing;
};

void check(const ExpertLayer& layer, const Tensor& x) {
  DS_CHECK(x.shape().rank() == 2 && x.shape()[1] == layer.width,
           "experts: x has shape {}, expected [N, {}]", x.shape().to_string(), layer.width);
  DS_CHECK(layer.activation != kernels::Activation::kNone,
           "experts: a gate without a function behind it");
}

// Gradients of parameters first, as those of an MLP.
void differentiate(GradientFlow& flow, Stream& stream, ParameterStore& store,
                   const ExpertLayer& spec, Operands operands, Kept& kept) {
  const Layer layer(stream, store, spec, operands);
  const Tensor dy = flow.take(0);
  const Routing& routing = kept.routing;
  const Tensor dlogits = layer.logits_gradient(routing, take(kept.rows), dy);
  const Tensor drows = layer.rows_there(dy, routing, routing.weights);
  const auto later = [&](auto work) {
    flow.later([spec, &stream, &store, operands, work = std::move(work)] {
      work(Layer(stream, store, spec, operands));
    });
  };
  const Tensor offsets = routing.order.offsets;
  if (store.trains(spec.down)) {
    later([down = spec.down, drows, after = take(kept.after), offsets](const Layer& again) {
      again.write_gradient(down, drows, after, offsets);
    });
  }
  Tensor before = take(kept.before);
  Tensor dbefore = Tensor::empty(before.shape(), before.dtype(), stream);
  {
    const Tensor dafter = layer.product(drows, spec.down, offsets, spec.inner, Transpose::kNo);
    kernels::glu_backward(stream, spec.activation, before, dafter, dbefore);
  }
  before = Tensor();
  const Tensor x = take(kept.x);
  if (store.trains(spec.up)) {
    later([up = spec.up, dbefore, x, routing](const Layer& again) {
      again.write_gradient(up, dbefore, again.rows_there(x, routing, {}), routing.order.offsets);
    });
  }
  if (store.trains(spec.router)) {
    later([dlogits, x](const Layer& again) { again.write_router_gradient(dlogits, x); });
  }
  if (!flow.wanted(0)) return;
  Tensor dx = layer.rows_back(layer.product(dbefore, spec.up, offsets, spec.width, Transpose::kNo),
                              routing, {}, dy.shape()[0]);
  layer.add_input_gradient(dlogits, dx);
  flow.give(0, std::move(dx));
}

Var experts_at_once(Context& context, const Var& x, const ExpertLayer& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  const Operands operands = context.pass.operands;
  const Layer layer(stream, store, spec, operands);
  const Span span(stream, module_label(store, spec.up));
  const int64_t tokens = x.value.shape()[0];
  Kept kept;
  kept.routing = layer.route(x.value, context.differentiates());
  const Tensor offsets = kept.routing.order.offsets;
  Tensor before = layer.product(layer.rows_there(x.value, kept.routing, {}), spec.up, offsets,
                                2 * spec.inner, Transpose::kYes);
  Tensor after = Tensor::empty({before.shape()[0], spec.inner}, before.dtype(), stream);
  kernels::glu_forward(stream, spec.activation, before, after);
  if (!context.differentiates()) before = Tensor();
  Tensor rows = layer.product(after, spec.down, offsets, spec.width, Transpose::kYes);
  Tensor y = context.pass.unread
                 ? unread_value(x.value.shape(), x.value.dtype())
                 : layer.rows_back(rows, kept.routing, kept.routing.weights, tokens);
  kept.x = context.save(x.value);
  kept.before = context.save(before);
  kept.after = context.save(after);
  kept.rows = context.save(rows);
  before = after = rows = Tensor();
  auto backward = [&stream, &store, spec, operands,
                   kept = std::move(kept)](GradientFlow& flow) mutable {
    differentiate(flow, stream, store, spec, operands, kept);
  };
  return context.record("experts", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace

Var experts(Context& context, const Var& x, const ExpertLayer& layer) {
  check(layer, x.value);
  const Tiling tiling{.name = "experts", .tiles = context.pass.mlp_tiles, .width = layer.width};
  return in_tiles(context, tiling, x, [layer](Context& inside, const Var& rows) {
    return experts_at_once(inside, rows, layer);
  });
}

}  // namespace ds
