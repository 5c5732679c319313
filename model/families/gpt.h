// GPT-2 (Radford et al., 2019) as Hugging Face's GPT2LMHeadModel computes it: learned positions,
// pre-norm blocks with LayerNorm, Conv1D weights [in, out], tied output projection.
#pragma once

#include <memory>

#include "model/language_model.h"
#include "model/module.h"

namespace ds {

std::unique_ptr<LanguageModel> make_gpt2(const Gpt2Config& config, const BuildContext& root);

}  // namespace ds
