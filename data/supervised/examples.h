// From records to examples: one class for each kind of data.
#pragma once

#include <memory>
#include <optional>

#include "data/supervised/chat_supervision.h"
#include "data/supervised/example_record.h"
#include "data/supervised/supervised_tokens.h"
#include "data/tokenizer/tokenizer_frame.h"

namespace ds {

// Thread-safe: nothing changes after construction.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;
  // The tokens of a record, whole. DataError with file and line for a record that is none.
  virtual SupervisedTokens read(const rapidjson::Value& object, const RecordPlace& place) const = 0;
};

// Conversations. The tokenizer must outlive the reader, here and below.
std::unique_ptr<ExampleReader> chat_examples(const Tokenizer& tokenizer, ChatFields fields,
                                             ChatSupervision supervision);

struct PromptForm {
  PromptFields fields{};
  bool learns_prompt = false;
  TokenizerFrame frame{};        // around the whole of two texts
  std::optional<int32_t> end{};  // that follows a completion, unless it is there
  // How prompts that are conversations are written; nothing: such are refused.
  std::optional<ChatSupervision> chat{};
};
// Prompts and their completions.
std::unique_ptr<ExampleReader> prompt_examples(const Tokenizer& tokenizer, PromptForm form);

// Token ids below `vocabulary`.
std::unique_ptr<ExampleReader> tokenized_examples(int64_t vocabulary);

}  // namespace ds
