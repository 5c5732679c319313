// From records of preference data to the two sequences of a pair, which have the tokens that TRL's
// DPOTrainer has of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/supervised/chat_supervision.h"
#include "data/supervised/preference_record.h"
#include "data/supervised/supervised_tokens.h"
#include "data/tokenizer/tokenizer_frame.h"

namespace ds {

struct PreferencePair {
  SupervisedTokens chosen, rejected;  // each whole: the prompt and a completion, which is learnt
};

// Thread-safe: nothing changes after construction.
class PairReader {
 public:
  virtual ~PairReader() = default;
  // The tokens of a record, whole. DataError with file and line for a record that is none.
  virtual PreferencePair read(const rapidjson::Value& object, const RecordPlace& place) const = 0;
};

struct PreferenceForm {
  PreferenceFields fields{};
  TokenizerFrame frame{};        // around the whole of two texts, and around a prompt
  std::optional<int32_t> end{};  // that follows a completion within the frame, unless it is there
  // How conversations are written; nothing: such are refused.
  std::optional<ChatSupervision> chat{};
};
// A completion is learnt from the first token on that the tokens of the prompt by itself differ in,
// from either sequence: where tokens join the prompt and a completion, that begins before it.
// The tokenizer must outlive the reader.
std::unique_ptr<PairReader> preference_pairs(const Tokenizer& tokenizer, PreferenceForm form);

}  // namespace ds
