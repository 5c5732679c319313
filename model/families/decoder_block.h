// A block of a decoder: attention and MLP, each behind a norm and added to the residual stream.
// Families differ in what DecoderSpec says (config/families/spec/decoder_spec.h).
#pragma once

#include <optional>

#include "config/families/spec/decoder_spec.h"
#include "model/modules/module.h"
#include "model/modules/stage.h"

namespace ds {

class DecoderBlock final : public Block {
 public:
  // Adds its parameters at build.path in the order in which a forward pass meets them. `dims`: of
  // the whole model.
  DecoderBlock(const DecoderSpec& spec, const ModelDimensions& dims, const BuildContext& build,
               int64_t layer);
  Residual forward(Context& context, const SequenceRows& rows, Residual in) const override;

 private:
  ModelDimensions dims_;  // of what is here
  int64_t layer_;
  std::optional<HeadNormSpec> head_norms_;
  std::optional<kernels::RotaryTable> rotary_;
  kernels::AttentionSpec attention_;  // without a shape
  DropoutSpec attention_dropout_, attention_out_dropout_, mlp_dropout_;
  NormSpec attention_norm_, mlp_norm_;
  std::optional<NormSpec> attention_out_norm_, mlp_out_norm_;
  float branch_factor_;
  MlpInput mlp_input_;
  LinearSpec qkv_, attention_out_;
  MlpSpec mlp_;
};

// Whether queries of a layer see a window of keys.
bool has_window(const DecoderSpec& spec, int64_t layer);
// Which keys they see.
kernels::AttentionMask attention_mask(const DecoderSpec& spec, int64_t layer);
// What attention of a layer computes, whatever its shape.
kernels::AttentionSpec attention_spec(const DecoderSpec& spec, int64_t layer);

// The norm that a decoder has, [width].
NormSpec norm_params(const DecoderSpec& spec, const BuildContext& build, int64_t width);

}  // namespace ds
