#include "data/supervised/chat_supervision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr std::string_view kSpeaks = "assistant";
constexpr std::string_view kEverything = "all";
constexpr std::string_view kHint =
    "give a data.chat.template that marks what is learnt with {% generation %} blocks, or data of "
    "format prompt_completion";

std::string_view without_spaces_behind(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

// The texts that a conversation has as it grows.
class ChatSupervision::Texts {
 public:
  Texts(const ChatFormat& format, const ChatRecord& chat, const RecordPlace& place)
      : format_(format),
        chat_(chat),
        where_(fmt::format("{}:{}", place.path, place.line)),
        whole_(render(std::ssize(chat.messages), false)) {}

  const RenderedChat& whole() const { return whole_; }
  const std::string& where() const { return where_; }
  // The size of the text of the first so many messages, with which the whole text begins.
  size_t size_of_first(int64_t messages) const {
    if (messages == 0) return 0;
    if (messages == std::ssize(chat_.messages)) return whole_.text.size();
    return require_beginning(render(messages, false).text, messages);
  }
  // The same with what says that the assistant's turn begins.
  size_t size_before_reply(int64_t messages) const {
    return require_beginning(render(messages, true).text, messages);
  }

 private:
  RenderedChat render(int64_t messages, bool asks_for_reply) const {
    return format_.render(first_messages(chat_, messages), where_, asks_for_reply);
  }
  size_t require_beginning(const std::string& text, int64_t messages) const {
    if (whole_.text.starts_with(text)) return text.size();
    throw DataError(
        fmt::format("{}: the chat template writes the first {} messages otherwise "
                    "where others follow, and nothing tells what is learnt; {}",
                    where_, messages, kHint));
  }

  const ChatFormat& format_;
  const ChatRecord& chat_;
  const std::string where_;
  const RenderedChat whole_;
};

bool ChatSupervision::is_learnt(const RecordMessage& message) const {
  const auto names = [&](std::string_view role) {
    return std::ranges::find(rules_.roles, role) != rules_.roles.end();
  };
  return message.is_learnt && (names(message.role) || (replies(message) && names(kSpeaks)));
}

std::vector<chat::TextRange> ChatSupervision::marked(const ChatRecord& chat,
                                                     const RenderedChat& rendered,
                                                     const std::string& where) const {
  if (rules_.roles != std::vector{std::string(kSpeaks)} || rules_.ends != LearntEnds::kOfTurn) {
    throw ConfigError(
        "data.chat: the chat template marks what is learnt itself; remove train_on and "
        "train_on_eos, or give another template");
  }
  if (std::ranges::all_of(chat.messages, &RecordMessage::is_learnt)) return rendered.generation;
  std::vector<chat::TextRange> kept;
  size_t turn = 0;
  for (const RecordMessage& message : chat.messages) {
    if (!replies(message)) continue;
    if (turn < rendered.generation.size() && message.is_learnt) {
      kept.push_back(rendered.generation[turn]);
    }
    ++turn;
  }
  if (turn == rendered.generation.size()) return kept;
  throw DataError(
      fmt::format("{}: the chat template marks {} parts of {} turns, and nothing tells "
                  "which of them have \"weight\" 0",
                  where, rendered.generation.size(), turn));
}

ChatSupervision::Turn ChatSupervision::turn_of(const ChatRecord& chat, int64_t message,
                                               const Texts& texts) const {
  const RecordMessage& spoken = nth(chat.messages, message);
  const std::string_view text = texts.whole().text;
  const size_t after = texts.size_of_first(message + 1);
  const bool is_asked_for = replies(spoken) && message > 0;
  size_t begin = is_asked_for ? texts.size_before_reply(message) : texts.size_of_first(message);
  if (begin > after) {
    throw DataError(fmt::format("{}: the chat template writes nothing of message {}; {}",
                                texts.where(), message + 1, kHint));
  }
  size_t end = begin + without_spaces_behind(text.substr(begin, after - begin)).size();
  size_t size = 0;  // of the token that ends it
  for (const std::string& token : rules_.special_tokens) {
    if (text.substr(begin, end - begin).ends_with(token)) size = std::max(size, token.size());
  }
  if (!is_asked_for) {  // what says that a turn begins is not learnt
    const std::string_view content = without_spaces_behind(spoken.content);
    const std::string_view said = without_spaces_behind(text.substr(begin, end - size - begin));
    if (content.empty() || !said.ends_with(content)) {
      throw DataError(
          fmt::format("{}: message {} does not stand in the text as it is, and nothing "
                      "tells where it begins; {}",
                      texts.where(), message + 1, kHint));
    }
    begin += said.size() - content.size();
  }
  if (size == 0) return {.said = {begin, after}, .end = {after, after}};
  return {.said = {begin, end - size}, .end = {end - size, end}};
}

std::vector<chat::TextRange> ChatSupervision::by_turns(const ChatRecord& chat,
                                                       const Texts& texts) const {
  int64_t last = -1;  // of those that are learnt
  for (int64_t i = 0; i < std::ssize(chat.messages); ++i) {
    if (is_learnt(nth(chat.messages, i))) last = i;
  }
  std::vector<chat::TextRange> learnt;
  for (int64_t i = 0; i < std::ssize(chat.messages); ++i) {
    const RecordMessage& message = nth(chat.messages, i);
    if (!is_learnt(message) && rules_.ends != LearntEnds::kOfAll) continue;
    const Turn turn = turn_of(chat, i, texts);
    if (rules_.ends != LearntEnds::kOfTurn && turn.end.begin == turn.end.end) {
      throw DataError(
          fmt::format("{}: the chat template ends message {} with no special token; remove "
                      "data.chat.train_on_eos, which is about such tokens",
                      texts.where(), i + 1));
    }
    if (is_learnt(message)) learnt.push_back(turn.said);
    const bool learns_end = rules_.ends == LearntEnds::kOfTurn ||
                            rules_.ends == LearntEnds::kOfAll ||
                            (rules_.ends == LearntEnds::kOfLast && i == last);
    if (learns_end) learnt.push_back(turn.end);
  }
  return learnt;
}

SupervisedText ChatSupervision::supervise(const ChatRecord& chat, const RecordPlace& place) const {
  const Texts texts(format_, chat, place);
  const RenderedChat& whole = texts.whole();
  SupervisedText out{.text = whole.text};
  const bool learns_all = rules_.roles == std::vector{std::string(kEverything)} && !chat.prompt;
  if ((learns_all || chat.prompt) &&
      !std::ranges::all_of(chat.messages, &RecordMessage::is_learnt)) {
    throw DataError(
        fmt::format("{}: a message has \"weight\" 0, and {} is learnt here whatever it "
                    "weighs; remove the weight, or give \"messages\" and train_on",
                    texts.where(), chat.prompt ? "a whole completion" : "everything"));
  }
  if (learns_all) {
    out.learnt = {{0, whole.text.size()}};
    return out;
  }
  if (chat.prompt) {
    if (replies(nth(chat.messages, *chat.prompt - 1))) {
      throw DataError(
          fmt::format("{}: the prompt ends with what the assistant says, and its "
                      "completion begins a turn of its own; give \"messages\"",
                      texts.where()));
    }
    out.learnt = {{texts.size_before_reply(*chat.prompt), whole.text.size()}};
    return out;
  }
  if (whole.unplaced_generation_line > 0) {
    throw DataError(fmt::format(
        "{}: line {} of the chat template has a {{% generation %}} block that writes into a value, "
        "and nothing tells where that stands; move it out of the macro or set block",
        texts.where(), whole.unplaced_generation_line));
  }
  out.learnt = whole.has_marks ? marked(chat, whole, texts.where()) : by_turns(chat, texts);
  return out;
}

std::string ChatSupervision::whole_text(const ChatRecord& chat, const RecordPlace& place) const {
  return Texts(format_, chat, place).whole().text;
}

std::string ChatSupervision::prompt_text(const ChatRecord& chat, const RecordPlace& place) const {
  DS_CHECK(chat.prompt, "chat: a conversation without a prompt");
  return format_
      .render(first_messages(chat, *chat.prompt), fmt::format("{}:{}", place.path, place.line),
              true)
      .text;
}

}  // namespace ds
