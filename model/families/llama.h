// Llama (Touvron et al., arXiv 2302.13971; grouped-query heads as in Llama 2) as Hugging Face's
// LlamaForCausalLM computes it: RMS norm, rotary positions in the half-split layout, SwiGLU.
#pragma once

#include <memory>

#include "model/language_model.h"
#include "model/module.h"

namespace ds {

std::unique_ptr<LanguageModel> make_llama(const LlamaConfig& config, const BuildContext& root);

}  // namespace ds
