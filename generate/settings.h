// How texts are drawn and how long they get, once the command line and the model's folder have both
// had their say (pure): an option wins over generation_config.json, and that over our default.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/verbs/generate.h"
#include "model/hf/generation.h"
#include "train/evaluate/token_sampler.h"

namespace ds {

struct GenerationSettings {
  SamplerOptions sampler;
  int64_t max_tokens = GenerateArgs::kMaxTokens;
  std::vector<std::string> taken;  // keys of generation_config.json that count
  std::vector<std::string> notes;  // lines for the user
};

// `do_sample` false is temperature 0, at which other values of the file that choose tokens have no
// effect and are not taken.
GenerationSettings generation_settings(const GenerateArgs& args, const GenerationDefaults& file);

}  // namespace ds
