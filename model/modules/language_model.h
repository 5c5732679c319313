// The model as the engine sees it: tokens in, one loss per token out, then backward; and logits of
// the next token for generation. Weights live in the ParameterStore of the Context, never here.
#pragma once

#include "config/families/list.h"
#include "model/pass/context.h"
#include "model/pass/kv_cache.h"

namespace ds {

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual const ModelConfig& config() const = 0;
  virtual DType dtype() const = 0;  // of weights and activations

  // tokens, targets: int32 [B, T], T <= positions; a negative target is ignored. Returns fp32 [B *
  // T]: -log p(target), natural log, 0 for ignored targets; their mean is the caller's business.
  // With a tape, the loss is sum(losses) * grad_scale: the head's gradients are written in the same
  // pass (the logits of a block of rows are never computed twice), the rest by the tape's
  // backward(). Without a tape, losses only.
  virtual Tensor loss(Context& context, const Tensor& tokens, const Tensor& targets,
                      float grad_scale) = 0;

  // Logits fp32 [B, V] of the token after the last of `tokens` int32 [B, T]. With context.cache,
  // the tokens follow the positions it holds and are added to it; T > 1 then needs an empty cache.
  virtual Tensor next_logits(Context& context, const Tensor& tokens) = 0;

  // What the head reads of tokens int32 [B, T]: [B * T, C] of dtype(), the residual stream behind
  // the last norm, as transformers' last_hidden_state. Needs no weight of a head; without a tape.
  virtual Tensor hidden_states(Context& context, const Tensor& tokens) = 0;
};

}  // namespace ds
