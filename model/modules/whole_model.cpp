#include "model/modules/whole_model.h"

#include "kernels/embedding/embedding.h"

namespace ds {

WholeModel::WholeModel(std::unique_ptr<const Stage> stage)
    : stage_(std::move(stage)), dims_(dimensions(stage_->config())) {
  DS_CHECK(stage_->is_first() && stage_->is_last(), "model: the stage has not all layers");
}

void WholeModel::check_tokens(const Tensor& tokens) const {
  DS_CHECK(tokens.dtype() == DType::kI32 && tokens.shape().rank() == 2,
           "model: tokens are {} {}, expected int32 [B, T]", name_of(tokens.dtype()),
           tokens.shape().to_string());
  DS_CHECK(tokens.shape()[1] <= dims_.positions,
           "model: sequences of {} tokens, it has {} positions", tokens.shape()[1],
           dims_.positions);
}

// All tokens are of the first segment.
void WholeModel::add_segments(Context& context, MicroBatch& batch, int64_t rows) const {
  if (transformer_spec(config()).tables.segments == 0) return;
  Tensor segments = Tensor::zeros({rows}, DType::kI32, context.stream);
  if (context.differentiates()) {
    batch.add(batch_field::kSegmentOrder, kernels::token_order(context.stream, segments));
  }
  batch.add(batch_field::kSegments, std::move(segments));
}

Tensor WholeModel::loss(Context& context, const Tensor& tokens, const Tensor& targets,
                        float grad_scale) {
  check_tokens(tokens);
  DS_CHECK(targets.dtype() == DType::kI32 && targets.shape() == tokens.shape(),
           "loss: targets are {} {}, expected int32 {}", name_of(targets.dtype()),
           targets.shape().to_string(), tokens.shape().to_string());
  DS_CHECK(context.cache == nullptr, "loss: a cache is for generation");
  const SequenceRows rows{.batch = tokens.shape()[0], .length = tokens.shape()[1]};
  StageInput input{.batch = {{batch_field::kTokens, tokens.reshape({tokens.numel()})},
                             {batch_field::kTargets, targets.reshape({targets.numel()})}},
                   .rows = rows};
  add_segments(context, input.batch, tokens.numel());
  if (context.differentiates()) {
    input.batch.add(batch_field::kTokenOrder, kernels::token_order(context.stream, tokens));
  }
  return stage_->losses(context, std::move(input), grad_scale);
}

Tensor WholeModel::next_logits(Context& context, const Tensor& tokens) {
  check_tokens(tokens);
  DS_CHECK(!context.differentiates(),
           "next_logits: not differentiable, give a context without tape");
  const SequenceRows rows{.batch = tokens.shape()[0],
                          .length = tokens.shape()[1],
                          .positions = context.cache != nullptr ? context.cache->length() : 0};
  DS_CHECK(rows.positions.first + rows.length <= dims_.positions,
           "next_logits: position {} of a model with {}", rows.positions.first + rows.length - 1,
           dims_.positions);
  MicroBatch batch{{batch_field::kTokens, tokens.reshape({tokens.numel()})}};
  add_segments(context, batch, tokens.numel());
  return stage_->next_logits(context, {.batch = std::move(batch), .rows = rows});
}

Tensor WholeModel::hidden_states(Context& context, const Tensor& tokens) {
  check_tokens(tokens);
  DS_CHECK(!context.differentiates() && context.cache == nullptr,
           "hidden_states: not differentiable, and of whole sequences");
  const SequenceRows rows{.batch = tokens.shape()[0], .length = tokens.shape()[1]};
  MicroBatch batch{{batch_field::kTokens, tokens.reshape({tokens.numel()})}};
  add_segments(context, batch, tokens.numel());
  return stage_->hidden_states(context, {.batch = std::move(batch), .rows = rows});
}

}  // namespace ds
