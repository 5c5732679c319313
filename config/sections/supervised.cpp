#include "config/sections/supervised.h"

namespace ds {

std::span<const EnumName> names_of(DataFormat) {
  static constexpr EnumName kNames[] = {
      {"text", static_cast<int>(DataFormat::kText)},
      {"chat", static_cast<int>(DataFormat::kChat)},
      {"prompt_completion", static_cast<int>(DataFormat::kPromptCompletion)},
      {"tokenized", static_cast<int>(DataFormat::kTokenized)},
      {"preference", static_cast<int>(DataFormat::kPreference)},
  };
  return kNames;
}

std::span<const EnumName> names_of(TooLong) {
  static constexpr EnumName kNames[] = {
      {"truncate", static_cast<int>(TooLong::kTruncate)},
      {"split", static_cast<int>(TooLong::kSplit)},
      {"drop", static_cast<int>(TooLong::kDrop)},
  };
  return kNames;
}

std::span<const EnumName> names_of(TrainOnEos) {
  static constexpr EnumName kNames[] = {
      {"turn", static_cast<int>(TrainOnEos::kTurn)},
      {"last", static_cast<int>(TrainOnEos::kLast)},
      {"all", static_cast<int>(TrainOnEos::kAll)},
      {"none", static_cast<int>(TrainOnEos::kNone)},
  };
  return kNames;
}

void fields(Visitor& v, ChatConfig& c) {
  v.field(
      "messages", c.messages,
      {.meaning = "The field with the list of messages, each with \"role\" and \"content\" or, "
                  "as ShareGPT has them, \"from\" and \"value\". A message with \"weight\" 0 is "
                  "not learnt.",
       .effect = Effect::kUsed,
       .unset_meaning = "messages, or conversations, or Alpaca's instruction, input and output"});
  v.field("roles", c.roles,
          {.meaning = "Roles that messages may have beside system, developer, user, assistant, "
                      "model, tool, function and ipython.",
           .effect = Effect::kUsed});
  v.field(
      "train_on", c.train_on,
      {.meaning = "Whose messages are learnt; \"all\": every token. A template with {% generation "
                  "%} blocks says which those of the assistant are.",
       .effect = Effect::kUsed,
       .synonyms = {"roles_to_train"},
       .one_or_list = true});
  v.field("train_on_eos", c.train_on_eos,
          {.meaning = "Whether the token that ends a turn is learnt: with each turn that is, with "
                      "the last of those, with each turn of anybody, or never.",
           .effect = Effect::kUsed});
  v.field("template", c.chat_template,
          {.meaning = "The chat template by which a conversation becomes a text: a file, or the "
                      "name of one of the tokenizer's.",
           .effect = Effect::kUsed,
           .synonyms = {"chat_template"},
           .unset_meaning = "the tokenizer's own"});
}

void fields(Visitor& v, PromptCompletionConfig& c) {
  v.field("prompt", c.prompt,
          {.meaning = "The field or column with what is given: a text, or a list of messages.",
           .effect = Effect::kUsed,
           .unset_meaning = "prompt, or the text that Alpaca makes of instruction and input"});
  v.field("completion", c.completion,
          {.meaning = "That with what is learnt, the tokenizer's eos_token behind it.",
           .effect = Effect::kUsed,
           .unset_meaning = "completion, or Alpaca's output"});
  v.field("train_on_prompt", c.train_on_prompt,
          {.meaning = "Whether the prompt is learnt, too.", .effect = Effect::kUsed});
}

void fields(Visitor& v, PreferenceDataConfig& c) {
  v.field("prompt", c.prompt,
          {.meaning = "The field or column with what is given: a text, or a list of messages.",
           .effect = Effect::kUsed,
           .unset_meaning = "prompt, or conversations, or else what both answers begin with"});
  v.field("chosen", c.chosen,
          {.meaning = "That with the better answer: a text, a message, or a list of messages.",
           .effect = Effect::kUsed,
           .unset_meaning = "chosen"});
  v.field("rejected", c.rejected,
          {.meaning = "That with the worse one.",
           .effect = Effect::kUsed,
           .unset_meaning = "rejected"});
}

void fields_of_supervised(Visitor& v, SupervisedData& c) {
  v.field("format", c.format,
          {.meaning = "What records are: text; conversations, in which the assistant's turns are "
                      "learnt; prompts and completions; token ids (input_ids and, with -100 where "
                      "nothing is learnt, labels); or pairs of answers, a better one and a worse "
                      "one. But for text they are JSON lines, a JSON list, .csv or .tsv, each an "
                      "example by itself, and losses and gradients are the mean over what is "
                      "learnt in the global batch, or over its pairs.",
           .effect = Effect::kUsed});
  v.section(
      "chat", c.chat,
      {.meaning = "How conversations are read, where format is chat.", .effect = Effect::kUsed});
  v.section("prompt_completion", c.prompt_completion,
            {.meaning = "How prompts are read, where format is prompt_completion.",
             .effect = Effect::kUsed});
  v.section("preference", c.preference,
            {.meaning = "How pairs of answers are read, where format is preference.",
             .effect = Effect::kUsed});
  v.field(
      "too_long", c.too_long,
      {.meaning = "What becomes of an example of more than sequence_length tokens: it loses its "
                  "end, it is split into examples, or it is left out. Of a pair of answers, which "
                  "is that long together, the longer one loses its end first.",
       .effect = Effect::kUsed});
  v.field(
      "packing", c.packing,
      {.meaning = "Whether several examples share a sample, as many as it has room for. They do "
                  "not see each other, positions begin anew with each, and every token that is "
                  "learnt weighs the same: losses are those of examples that are padded.",
       .effect = Effect::kUsed});
  v.field("date", c.date,
          {.meaning = "The day that chat templates write where they ask for the time "
                      "(strftime_now), as Llama 3's do: \"2026-11-30\".",
           .effect = Effect::kUsed,
           .unset_meaning = "that on which the run began"});
  v.field("packing_window", c.packing_window,
          {.meaning = "Examples among which packing looks for those that fit together.",
           .effect = Effect::kUsed,
           .min = 1});
}

}  // namespace ds
