// What is to be generated, as far as it is known before any weight is: prompts as tokens, and which
// tokens end a text or never come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/verbs/generate.h"
#include "core/files/file.h"
#include "data/tokenizer/tokenizer.h"
#include "generate/settings.h"
#include "train/model_source.h"

namespace ds {

struct Prompt {
  PromptRecord record{};
  std::vector<int32_t> ids{};
};

struct GenerationTask {
  std::unique_ptr<Tokenizer> tokenizer;
  ModelDimensions dims{};
  std::vector<int32_t> eos{}, never{};  // in ascending order: never
  std::vector<Prompt> prompts{};
  GenerationSettings settings{};
};

// `prompts` in the place of those that `args` name. UsageError for a prompt that the model cannot
// take; ConfigError for a tokenizer that is not the model's; DataError for a generation_config.json
// that is none.
GenerationTask generation_task(FileSystem& files, const ModelSource& source,
                               const GenerateArgs& args, std::vector<PromptRecord> prompts);

// The same of a tokenizer in the words of make_tokenizer and of the Hugging Face folder, if there
// is one, that says which tokens end texts; prompts of any length, and settings that nobody chose.
GenerationTask task_of(FileSystem& files, const std::string& tokenizer, const ModelDimensions& dims,
                       const std::optional<std::string>& folder, std::vector<PromptRecord> prompts);

// What the weights are computed in: args.dtype or, where it is not given, what is stored.
DType generation_dtype(const ModelSource& source, const GenerateArgs& args);

}  // namespace ds
