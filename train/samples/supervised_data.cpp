#include "train/samples/supervised_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/families/spec/transformer_spec.h"
#include "core/status/error.h"
#include "core/text/date.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/tokenizer_frame.h"

namespace ds {
namespace {

LearntEnds learnt_ends(TrainOnEos value) {
  switch (value) {
    case TrainOnEos::kTurn:
      return LearntEnds::kOfTurn;
    case TrainOnEos::kLast:
      return LearntEnds::kOfLast;
    case TrainOnEos::kAll:
      return LearntEnds::kOfAll;
    case TrainOnEos::kNone:
      return LearntEnds::kNone;
  }
  throw InternalError("data.chat.train_on_eos");
}

LongExamples long_examples(TooLong value) {
  switch (value) {
    case TooLong::kTruncate:
      return LongExamples::kTruncate;
    case TooLong::kSplit:
      return LongExamples::kSplit;
    case TooLong::kDrop:
      return LongExamples::kDrop;
  }
  throw InternalError("data.too_long");
}

// Whose turns are learnt has to be somebody.
void require_roles(const ChatConfig& chat) {
  const std::string key = "data.chat.train_on";
  if (chat.train_on.empty()) {
    throw ConfigError(key + ": nobody's messages are learnt; name a role, or \"all\"");
  }
  const std::span<const std::string_view> known = known_roles();
  for (const std::string& role : chat.train_on) {
    if (role == "all") {
      if (chat.train_on.size() == 1 && chat.train_on_eos == TrainOnEos::kTurn) continue;
      throw ConfigError(key +
                        ": \"all\" is every token, whoever says it; give it alone, without "
                        "train_on_eos");
    }
    if (std::ranges::find(known, role) != known.end() ||
        std::ranges::find(chat.roles, role) != chat.roles.end()) {
      continue;
    }
    throw ConfigError(
        fmt::format("{}: \"{}\" is none of {}; name roles of your own in "
                    "data.chat.roles",
                    key, role, fmt::join(known, ", ")));
  }
}

ChatSupervision supervision_of(const DataSection& data, FileSystem& files) {
  const ChatConfig chat = data.supervised.chat.value_or(ChatConfig());
  require_roles(chat);
  SupervisionRules rules{.roles = chat.train_on, .ends = learnt_ends(chat.train_on_eos)};
  for (const auto& [token, id] : special_tokens(files, data.tokenizer)) {
    rules.special_tokens.push_back(token);
  }
  ChatFormat format = ChatFormat::read(files, data.tokenizer, chat.chat_template.value_or(""),
                                       "data.chat.template");
  if (const std::optional<std::string>& date = data.supervised.date) {
    format.write_time(parse_date(*date).value());
  }
  return {std::move(format), std::move(rules)};
}

// The token behind a completion; nothing: the tokenizer has none.
std::optional<int32_t> end_token(const DataSection& data, const Tokenizer& tokenizer,
                                 FileSystem& files) {
  const std::optional<std::string> token = eos_token(files, data.tokenizer);
  if (!token) return std::nullopt;
  const std::vector<int32_t> ids = tokenizer.encode(*token);
  if (ids.size() == 1) return ids.front();
  throw ConfigError(fmt::format(
      "data.tokenizer: its eos_token \"{}\" is {} tokens, and nothing ends a completion", *token,
      ids.size()));
}

// How prompts that are conversations are written; nothing: nobody says.
std::optional<ChatSupervision> turns_of_prompts(const DataSection& data, FileSystem& files) {
  const ChatConfig chat = data.supervised.chat.value_or(ChatConfig());
  if (!chat.chat_template && !ChatFormat::exists(files, data.tokenizer)) return std::nullopt;
  return supervision_of(data, files);
}

std::unique_ptr<ExampleReader> prompts_of(const DataSection& data, const Tokenizer& tokenizer,
                                          FileSystem& files) {
  const PromptCompletionConfig c =
      data.supervised.prompt_completion.value_or(PromptCompletionConfig());
  const ChatConfig chat = data.supervised.chat.value_or(ChatConfig());
  PromptForm form{.fields = {.prompt = c.prompt, .completion = c.completion, .roles = chat.roles},
                  .learns_prompt = c.train_on_prompt,
                  .frame = read_frame(files, data.tokenizer, tokenizer),
                  .end = end_token(data, tokenizer, files)};
  form.chat = turns_of_prompts(data, files);
  return prompt_examples(tokenizer, std::move(form));
}

std::unique_ptr<PairReader> pairs_of(const DataSection& data, const Tokenizer& tokenizer,
                                     FileSystem& files) {
  const PreferenceDataConfig c = data.supervised.preference.value_or(PreferenceDataConfig());
  const ChatConfig chat = data.supervised.chat.value_or(ChatConfig());
  PreferenceForm form{.fields = {.prompt = c.prompt,
                                 .chosen = c.chosen,
                                 .rejected = c.rejected,
                                 .roles = chat.roles},
                      .frame = read_frame(files, data.tokenizer, tokenizer),
                      .end = end_token(data, tokenizer, files),
                      .chat = turns_of_prompts(data, files)};
  return preference_pairs(tokenizer, std::move(form));
}

std::unique_ptr<ExampleReader> examples_of(const DataSection& data, const Tokenizer* tokenizer,
                                           int64_t vocabulary, FileSystem& files) {
  switch (data.supervised.format) {
    case DataFormat::kText:
    case DataFormat::kPreference:
      break;
    case DataFormat::kTokenized:
      return tokenized_examples(vocabulary);
    case DataFormat::kPromptCompletion:
      return prompts_of(data, *tokenizer, files);
    case DataFormat::kChat: {
      const ChatConfig chat = data.supervised.chat.value_or(ChatConfig());
      return chat_examples(*tokenizer, {.messages = chat.messages, .roles = chat.roles},
                           supervision_of(data, files));
    }
  }
  throw InternalError("data.format: it has no examples");
}

void require_supervised(const ModelConfig& model) {
  if (predicts_next(model) && !model.classifier && !model.pairs) return;
  throw ConfigError(
      fmt::format("data.format: examples teach a model that predicts next tokens, and {} does not; "
                  "remove it",
                  hf_model_class(model)));
}

}  // namespace

SupervisedReader::SupervisedReader(const DataSection& data, const ModelConfig& model,
                                   FileSystem& files)
    : files_(files),
      form_{.length = data.sequence_length.value_or(dimensions(model).positions),
            .longest = dimensions(model).positions,
            .too_long = long_examples(data.supervised.too_long)} {
  require_supervised(model);
  // What pairs do not go with has been refused where the file was read.
  if (data.supervised.has_pairs() && form_.too_long == LongExamples::kSplit) {
    form_.too_long = LongExamples::kTruncate;
  }
  if (data.supervised.packing && !data.supervised.has_pairs())
    form_.packing_window = data.supervised.packing_window;
  const int64_t vocabulary = dimensions(model).vocabulary;
  if (data.supervised.format != DataFormat::kTokenized) {
    tokenizer_ = make_tokenizer(files, data.tokenizer);
    check_vocabulary(*tokenizer_, data.tokenizer, vocabulary);
  }
  if (data.supervised.has_pairs()) {
    pairs_ = pairs_of(data, *tokenizer_, files);
  } else {
    examples_ = examples_of(data, tokenizer_.get(), vocabulary, files);
  }
}

}  // namespace ds
