// WholeModel: a language model in one piece, which is the stage that is first and last.
// The stage brings loss and backward; this adds generation.
#pragma once

#include <memory>

#include "model/modules/language_model.h"
#include "model/modules/stage.h"

namespace ds {

class WholeModel final : public LanguageModel {
 public:
  explicit WholeModel(std::unique_ptr<const Stage> stage);  // of all layers

  const ModelConfig& config() const override { return stage_->config(); }
  DType dtype() const override { return stage_->dtype(); }
  Tensor loss(Context& context, const Tensor& tokens, const Tensor& targets,
              float grad_scale) override;
  Tensor next_logits(Context& context, const Tensor& tokens) override;
  Tensor hidden_states(Context& context, const Tensor& tokens) override;

 private:
  void check_tokens(const Tensor& tokens) const;
  void add_segments(Context& context, MicroBatch& batch, int64_t rows) const;

  const std::unique_ptr<const Stage> stage_;
  const ModelDimensions dims_;
};

}  // namespace ds
