// Llama (Touvron et al., arXiv 2302.13971; grouped-query heads as in Llama 2) as Hugging Face's
// LlamaForCausalLM computes it: RMS norm, rotary positions in the half-split layout, SwiGLU.
#pragma once

#include "model/module.h"
#include "model/stage.h"

namespace ds {

// Parameters of other layers are not added; see make_stage().
Stage::Parts llama_stage(const LlamaConfig& config, const BuildContext& root, LayerRange layers);

}  // namespace ds
