// GPT-2 (Radford et al., 2019) as Hugging Face's GPT2LMHeadModel computes it: learned positions,
// pre-norm blocks with LayerNorm, Conv1D weights [in, out], tied output projection.
#pragma once

#include "model/module.h"
#include "model/stage.h"

namespace ds {

// Parameters of other layers are not added; see make_stage().
Stage::Parts gpt2_stage(const Gpt2Config& config, const BuildContext& root, LayerRange layers);

}  // namespace ds
