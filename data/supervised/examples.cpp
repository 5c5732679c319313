#include "data/supervised/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/supervised/prompt_writing.h"
#include "data/supervised/token_places.h"
#include "data/text/record_lines.h"

namespace ds {
namespace {

// A text that its tokens do not spell is encoded part by part, as long as this makes no
// difference.
std::optional<std::vector<uint8_t>> mask_by_parts(const Tokenizer& tokenizer,
                                                  const SupervisedText& text,
                                                  std::span<const int32_t> ids) {
  std::vector<int32_t> joined;
  std::vector<uint8_t> mask;
  const auto add = [&](size_t begin, size_t end, bool is_learnt) {
    const std::vector<int32_t> part =
        tokenizer.encode(std::string_view(text.text).substr(begin, end - begin));
    joined.insert(joined.end(), part.begin(), part.end());
    mask.resize(joined.size(), is_learnt ? 1 : 0);
  };
  size_t at = 0;
  for (const chat::TextRange& range : text.learnt) {
    add(at, range.begin, false);
    add(range.begin, range.end, true);
    at = range.end;
  }
  add(at, text.text.size(), false);
  if (!std::ranges::equal(joined, ids)) return std::nullopt;
  return mask;
}

SupervisedTokens tokens_of(const Tokenizer& tokenizer, const SupervisedText& text,
                           const RecordPlace& place) {
  SupervisedTokens out{.ids = tokenizer.encode(text.text), .loss_mask = {}};
  if (const auto places = token_places(tokenizer, text.text, out.ids)) {
    out.loss_mask = mask_of_places(*places, text.learnt);
  } else if (auto mask = mask_by_parts(tokenizer, text, out.ids)) {
    out.loss_mask = *std::move(mask);
  } else {
    refuse_line(place.path, place.line,
                "the tokenizer changes the text, and nothing tells which of its tokens are learnt");
  }
  return out;
}

class ChatExamples final : public ExampleReader {
 public:
  ChatExamples(const Tokenizer& tokenizer, ChatFields fields, ChatSupervision supervision)
      : tokenizer_(tokenizer), fields_(std::move(fields)), supervision_(std::move(supervision)) {}

  SupervisedTokens read(const rapidjson::Value& object, const RecordPlace& place) const override {
    const ChatRecord chat = chat_record(object, fields_, place);
    return tokens_of(tokenizer_, supervision_.supervise(chat, place), place);
  }

 private:
  const Tokenizer& tokenizer_;
  const ChatFields fields_;
  const ChatSupervision supervision_;
};

class PromptExamples final : public ExampleReader {
 public:
  PromptExamples(const Tokenizer& tokenizer, PromptForm form)
      : tokenizer_(tokenizer), form_(std::move(form)) {}

  SupervisedTokens read(const rapidjson::Value& object, const RecordPlace& place) const override {
    const PromptAndCompletion record = prompt_record(object, form_.fields, place);
    SupervisedTokens out = record.chat ? of_chat(*record.chat, place) : of_texts(record, place);
    if (form_.learns_prompt) std::ranges::fill(out.loss_mask, 1);
    return out;
  }

 private:
  SupervisedTokens of_chat(const ChatRecord& chat, const RecordPlace& place) const {
    const ChatSupervision& supervision = require_template(form_.chat, place);
    return tokens_of(tokenizer_, supervision.supervise(chat, place), place);
  }

  SupervisedTokens of_texts(const PromptAndCompletion& record, const RecordPlace& place) const {
    const SupervisedText text{
        .text = record.prompt + record.completion,
        .learnt = {{record.prompt.size(), record.prompt.size() + record.completion.size()}}};
    const SupervisedTokens inner = tokens_of(tokenizer_, text, place);
    SupervisedTokens out{.ids = framed(form_.frame, inner.ids), .loss_mask = {}};
    out.loss_mask.resize(form_.frame.before.size(), 0);
    out.loss_mask.insert(out.loss_mask.end(), inner.loss_mask.begin(), inner.loss_mask.end());
    if (form_.end && (out.ids.empty() || out.ids.back() != *form_.end)) {
      out.ids.push_back(*form_.end);
    }
    out.loss_mask.resize(out.ids.size(), 1);  // what ends the completion
    return out;
  }

  const Tokenizer& tokenizer_;
  const PromptForm form_;
};

class TokenizedExamples final : public ExampleReader {
 public:
  explicit TokenizedExamples(int64_t vocabulary) : vocabulary_(vocabulary) {}

  SupervisedTokens read(const rapidjson::Value& object, const RecordPlace& place) const override {
    return tokenized_record(object, vocabulary_, place);
  }

 private:
  const int64_t vocabulary_;
};

}  // namespace

std::unique_ptr<ExampleReader> chat_examples(const Tokenizer& tokenizer, ChatFields fields,
                                             ChatSupervision supervision) {
  return std::make_unique<ChatExamples>(tokenizer, std::move(fields), std::move(supervision));
}

std::unique_ptr<ExampleReader> prompt_examples(const Tokenizer& tokenizer, PromptForm form) {
  return std::make_unique<PromptExamples>(tokenizer, std::move(form));
}

std::unique_ptr<ExampleReader> tokenized_examples(int64_t vocabulary) {
  return std::make_unique<TokenizedExamples>(vocabulary);
}

}  // namespace ds
