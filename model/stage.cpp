#include "model/stage.h"

#include <array>

#include "kernels/elementwise.h"

namespace ds {
namespace {

// sum + branch, rounded as the norms that add round it.
Var joined(Context& context, Residual residual) {
  if (!residual.branch.defined()) return std::move(residual.sum);
  const Tensor& sum = residual.sum.value;
  Tensor y = Tensor::empty(sum.shape(), sum.dtype(), context.stream);
  kernels::add(context.stream, residual.branch.value, sum, y);
  auto backward = [](GradientFlow& flow) {
    Tensor dy = flow.take(0);
    flow.give(1, dy);
    flow.give(0, std::move(dy));
  };
  const std::array<Var, 2> inputs{residual.sum, residual.branch};
  return context.record("boundary", inputs, {std::move(y)}, std::move(backward)).front();
}

}  // namespace

LayerRange all_layers(const ModelConfig& config) { return {0, dimensions(config).layers + 2}; }

Stage::Stage(Parts parts) : parts_(std::move(parts)), dims_(dimensions(parts_.config)) {}

const Stage::Head& Stage::head() const {
  DS_CHECK(is_last(), "stage: only the last one has a head");
  return *parts_.head;
}

Residual Stage::run(Context& context, StageInput input) const {
  const SequenceRows& rows = input.rows;
  const int64_t row_count = rows.batch * rows.length;
  Residual stream;
  const Span span(context.stream, "embedding");
  if (is_first()) {
    DS_CHECK(input.tokens.dtype() == DType::kI32 && input.tokens.shape() == Shape{row_count},
             "stage: tokens are {} {}, expected int32 [{}]", name_of(input.tokens.dtype()),
             input.tokens.shape().to_string(), row_count);
    stream.sum = dropout(context,
                         embed(context,
                               {.tokens = std::move(input.tokens),
                                .order = std::move(input.order),
                                .length = rows.length,
                                .first_position = rows.first_position},
                               parts_.dtype, parts_.embedding->spec),
                         parts_.embedding->dropout, rows.length);
  } else {
    const Shape expected{row_count, dims_.width};
    DS_CHECK(input.boundary.defined() && input.boundary.value.shape() == expected &&
                 input.boundary.value.dtype() == parts_.dtype,
             "stage: it needs {} {} of the stage before", name_of(parts_.dtype),
             expected.to_string());
    stream.sum = std::move(input.boundary);
  }
  for (const auto& block : parts_.blocks) {
    const Span in_block(context.stream, block->path());
    stream = block->forward(context, rows, std::move(stream));
  }
  return stream;
}

Var Stage::forward(Context& context, StageInput input) const {
  DS_CHECK(!is_last(), "stage: the last one gives losses and has no boundary");
  Residual residual = run(context, std::move(input));
  const Span span(context.stream, "boundary");
  return joined(context, std::move(residual));
}

Tensor Stage::losses(Context& context, StageInput input, const Tensor& targets,
                     float grad_scale) const {
  const Head& last = head();
  Residual residual = run(context, std::move(input));
  const Span span(context.stream, "head");
  Var y = norm(context, residual.sum, residual.branch, last.norm).y;
  residual = {};
  return linear_cross_entropy(context, std::move(y), last.weight, targets, grad_scale);
}

}  // namespace ds
