#include "data/supervised/preference_examples.h"

#include <algorithm>
#include <utility>

#include "core/values/index.h"
#include "data/supervised/prompt_writing.h"

namespace ds {
namespace {

using Ids = std::vector<int32_t>;

int64_t shared_tokens(const Ids& a, const Ids& b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

SupervisedTokens learnt_from(int64_t first, Ids ids) {
  SupervisedTokens out{.ids = std::move(ids), .loss_mask = {}};
  out.loss_mask.resize(out.ids.size(), 1);
  std::fill_n(out.loss_mask.begin(), first, uint8_t{0});
  return out;
}

class PreferencePairs final : public PairReader {
 public:
  PreferencePairs(const Tokenizer& tokenizer, PreferenceForm form)
      : tokenizer_(tokenizer), form_(std::move(form)) {}

  PreferencePair read(const rapidjson::Value& object, const RecordPlace& place) const override {
    const PreferenceRecord record = preference_record(object, form_.fields, place);
    if (record.chats) return of_chats(record.chats->first, record.chats->second, place);
    return pair_of(framed(form_.frame, tokenizer_.encode(record.prompt)),
                   ids_of_texts(record.prompt, record.chosen),
                   ids_of_texts(record.prompt, record.rejected));
  }

 private:
  PreferencePair of_chats(const ChatRecord& chosen, const ChatRecord& rejected,
                          const RecordPlace& place) const {
    const ChatSupervision& chat = require_template(form_.chat, place);
    return pair_of(tokenizer_.encode(chat.prompt_text(chosen, place)),
                   tokenizer_.encode(chat.whole_text(chosen, place)),
                   tokenizer_.encode(chat.whole_text(rejected, place)));
  }

  Ids ids_of_texts(const std::string& prompt, const std::string& completion) const {
    Ids ids = tokenizer_.encode(prompt + completion);
    const bool has_ended = !completion.empty() && !ids.empty() && ids.back() == form_.end;
    if (form_.end && !has_ended) ids.push_back(*form_.end);
    return framed(form_.frame, ids);
  }

  static PreferencePair pair_of(const Ids& prompt, Ids chosen, Ids rejected) {
    const int64_t first = std::min(shared_tokens(prompt, chosen), shared_tokens(prompt, rejected));
    return {.chosen = learnt_from(first, std::move(chosen)),
            .rejected = learnt_from(first, std::move(rejected))};
  }

  const Tokenizer& tokenizer_;
  const PreferenceForm form_;
};

}  // namespace

std::unique_ptr<PairReader> preference_pairs(const Tokenizer& tokenizer, PreferenceForm form) {
  return std::make_unique<PreferencePairs>(tokenizer, std::move(form));
}

}  // namespace ds
