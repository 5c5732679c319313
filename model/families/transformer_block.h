// A block of a transformer: attention and MLP, each added to the residual stream, with norms before
// them, behind them, or of the sum.
// Families differ in what TransformerSpec says (config/families/spec/transformer_spec.h).
#pragma once

#include <optional>
#include <vector>

#include "config/families/spec/transformer_spec.h"
#include "model/functions/experts.h"
#include "model/modules/module.h"
#include "model/modules/stage.h"

namespace ds {

class TransformerBlock final : public Block {
 public:
  // Adds its parameters at build.path in the order in which a forward pass meets them. `dims`: of
  // the whole model.
  TransformerBlock(const TransformerSpec& spec, const ModelDimensions& dims,
                   const BuildContext& build, int64_t layer);
  Residual forward(Context& context, const SequenceRows& rows, Residual in) const override;

 private:
  // The norms of a branch, as far as it has them: of what it reads, of what it gives, and of the
  // residual stream with that.
  struct BranchNorms {
    std::optional<NormSpec> before, behind, of_sum;
    bool read_branch() const { return behind || of_sum; }
  };
  static NormOutput stream_of(Context& context, Residual in, const BranchNorms& norms);
  static Residual with_branch(Context& context, Var sum, Var branch, const BranchNorms& norms);
  Var attend(Context& context, const SequenceRows& rows, Var y) const;
  Var run_mlp(Context& context, const SequenceRows& rows, Var y) const;
  Var mlp_or_experts(Context& context, const Var& y) const;

  ModelDimensions dims_;  // of what is here
  int64_t layer_;
  std::optional<HeadNormSpec> head_norms_;
  std::optional<kernels::RotaryTable> rotary_;
  kernels::AttentionSpec attention_;  // without a shape
  DropoutSpec attention_dropout_, attention_out_dropout_, mlp_dropout_;
  BranchNorms attention_norms_, mlp_norms_;
  float branch_factor_;
  MlpInput mlp_input_;
  LinearSpec qkv_, attention_out_;
  MlpSpec mlp_;
  std::vector<ExpertLayer> experts_;  // in its place, whose outputs are added; none: the MLP
};

// Whether queries of a layer see a window of keys.
bool has_window(const TransformerSpec& spec, int64_t layer);
// Which keys they see.
kernels::AttentionMask attention_mask(const TransformerSpec& spec, int64_t layer);
// What attention of a layer computes, whatever its shape.
kernels::AttentionSpec attention_spec(const TransformerSpec& spec, const ModelDimensions& dims,
                                      int64_t layer);

// A norm of the model's kind, [width], which is a child of `build`; nothing where it has no name.
std::optional<NormSpec> norm_params(const TransformerSpec& spec, const BuildContext& build,
                                    std::string_view name, int64_t width);

}  // namespace ds
