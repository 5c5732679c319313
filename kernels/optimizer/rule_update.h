// The update of rules that work weight by weight, in one pass over a shard. Adam with state in fp32
// has a kernel of its own (kernels/optimizer/update.h).
#pragma once

#include <optional>
#include <vector>

#include "kernels/optimizer/moments.h"
#include "kernels/optimizer/update_rules.h"
#include "kernels/optimizer/weight_rounding.h"

namespace ds::kernels {

// One number of state per weight.
struct StateTensor {
  Tensor values;       // [n] of the format: fp32, bf16, or u8, which begins at a block
  Tensor scales = {};  // u8, one per kMomentBlock weights; undefined where the format has none
  MomentFormat format = MomentFormat::kFp32;
};

struct RuleArgs {
  // [n], updated: fp32, or bf16 or fp16, which become fp32 for the step and are rounded after it.
  Tensor master;
  Tensor grad = {};  // [n], fp32, bf16 or fp16
  // rule.states() of them, updated: of one dtype; in 8 bits those of kRootStates are roots.
  std::vector<StateTensor> states = {};
  Tensor copy = {};  // [n] fp32, bf16 or fp16: the rounded weight; or undefined
  // Masters in bf16 are rounded at random by it; nothing: to nearest.
  std::optional<WeightNoise> noise = std::nullopt;
};
// One step by `scalars`; nothing where they say skip. For the rules of update_rules.h that have
// states().
template <class Rule>
void rule_update(Stream& stream, const RuleArgs& args, const Rule& rule,
                 const StepScalars& scalars);

// State of a format to fp32 numbers, and back, where blocks are whole and nothing is rounded that
// is representable: what checkpoints hold.
void unpack_state(Stream& stream, const StateTensor& state, const Tensor& numbers);
void pack_state(Stream& stream, const Tensor& numbers, const StateTensor& state);

}  // namespace ds::kernels
