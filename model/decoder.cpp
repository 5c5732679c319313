#include "model/decoder.h"

#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm/matmul.h"

namespace ds {
namespace {

// Row `length - 1` of each sequence, as constants.
Var last_rows(Stream& stream, const Var& x, const SequenceRows& rows) {
  if (!x.defined() || rows.length == 1) return x;
  const int64_t width = x.value.shape()[1];
  Tensor last = Tensor::empty({rows.batch, width}, x.value.dtype(), stream);
  for (int64_t b = 0; b < rows.batch; ++b) {
    Tensor row = last.narrow(b * width, width);
    kernels::cast(stream, x.value.narrow(((b + 1) * rows.length - 1) * width, width), row);
  }
  return {std::move(last), Var::kConstant};
}

}  // namespace

Decoder::Decoder(std::unique_ptr<const Stage> stage)
    : stage_(std::move(stage)), dims_(dimensions(stage_->config())) {
  DS_CHECK(stage_->is_first() && stage_->is_last(), "decoder: the stage has not all layers");
}

void Decoder::check_tokens(const Tensor& tokens) const {
  DS_CHECK(tokens.dtype() == DType::kI32 && tokens.shape().rank() == 2,
           "model: tokens are {} {}, expected int32 [B, T]", name_of(tokens.dtype()),
           tokens.shape().to_string());
  DS_CHECK(tokens.shape()[1] <= dims_.positions,
           "model: sequences of {} tokens, it has {} positions", tokens.shape()[1],
           dims_.positions);
}

Tensor Decoder::loss(Context& context, const Tensor& tokens, const Tensor& targets,
                     float grad_scale) {
  check_tokens(tokens);
  DS_CHECK(targets.dtype() == DType::kI32 && targets.shape() == tokens.shape(),
           "loss: targets are {} {}, expected int32 {}", name_of(targets.dtype()),
           targets.shape().to_string(), tokens.shape().to_string());
  DS_CHECK(context.cache == nullptr, "loss: a cache is for generation");
  const SequenceRows rows{.batch = tokens.shape()[0], .length = tokens.shape()[1]};
  StageInput input{.tokens = tokens.reshape({tokens.numel()}), .rows = rows};
  if (context.differentiates()) input.order = kernels::token_order(context.stream, tokens);
  return stage_->losses(context, std::move(input), targets.reshape({targets.numel()}), grad_scale);
}

Tensor Decoder::next_logits(Context& context, const Tensor& tokens) {
  check_tokens(tokens);
  DS_CHECK(!context.differentiates(),
           "next_logits: not differentiable, give a context without tape");
  const SequenceRows rows{.batch = tokens.shape()[0],
                          .length = tokens.shape()[1],
                          .positions = context.cache != nullptr ? context.cache->length() : 0};
  DS_CHECK(rows.positions.first + rows.length <= dims_.positions,
           "next_logits: position {} of a model with {}", rows.positions.first + rows.length - 1,
           dims_.positions);
  Stream& stream = context.stream;
  Residual residual =
      stage_->run(context, {.tokens = tokens.reshape({tokens.numel()}), .rows = rows});
  if (context.cache != nullptr) context.cache->advance(rows.length);
  residual = {last_rows(stream, residual.sum, rows), last_rows(stream, residual.branch, rows)};
  const Var y = norm(context, residual.sum, residual.branch, stage_->head().norm).y;
  Tensor logits = Tensor::empty({rows.batch, dims_.vocabulary}, DType::kF32, stream);
  const Lease head = context.store.acquire(stage_->head().weight);
  kernels::matmul(stream, {.a = kernels::matrix(y.value, rows.batch, dims_.width),
                           .b = kernels::matrix(head.weight(), dims_.vocabulary, dims_.width),
                           .c = kernels::matrix(logits, rows.batch, dims_.vocabulary),
                           .transpose_b = kernels::Transpose::kYes});
  return logits;
}

}  // namespace ds
