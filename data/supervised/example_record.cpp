#include "data/supervised/example_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/values/index.h"
#include "data/chat_format.h"
#include "data/text/record_lines.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

constexpr std::string_view kChatSection = "data.chat.messages";
constexpr std::string_view kPromptSection = "data.prompt_completion";
constexpr int32_t kNoLabel = -100;  // PyTorch's ignore_index, in labels of transformers

constexpr std::array<std::string_view, 8> kRoles{"system", "developer", "user",     "assistant",
                                                 "model",  "tool",      "function", "ipython"};
// The speakers of ShareGPT's conversations, by the roles that templates know.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kSpeakers{
    {{"human", "user"},
     {"user", "user"},
     {"gpt", "assistant"},
     {"chatgpt", "assistant"},
     {"bing", "assistant"},
     {"bard", "assistant"},
     {"assistant", "assistant"},
     {"model", "assistant"},
     {"system", "system"},
     {"tool", "tool"},
     {"function", "tool"},
     {"function_response", "tool"},
     {"observation", "tool"}}};

[[noreturn]] void refuse(const RecordPlace& place, const std::string& defect) {
  refuse_line(place.path, place.line, defect);
}

// The last one of that name, as Python reads objects; null: there is none, or it is null.
const rapidjson::Value* member(const rapidjson::Value& object, std::string_view name) {
  const rapidjson::Value* const found = last_member(object, name);
  return found == nullptr || found->IsNull() ? nullptr : found;
}

// Writing costs stack by the level, as templates are given no more either.
bool is_deeper(const rapidjson::Value& value, int levels) {
  if (!value.IsArray() && !value.IsObject()) return false;
  if (levels == 0) return true;
  const auto exceeds = [&](const rapidjson::Value& inner) { return is_deeper(inner, levels - 1); };
  if (value.IsArray()) return std::ranges::any_of(value.Begin(), value.End(), exceeds);
  return std::any_of(value.MemberBegin(), value.MemberEnd(),
                     [&](const auto& inner) { return exceeds(inner.value); });
}

std::string json_of(const rapidjson::Value& value, const RecordPlace& place) {
  if (is_deeper(value, ChatFormat::kDeepest)) {
    refuse(place,
           fmt::format("a message or tool is nested deeper than {} levels", ChatFormat::kDeepest));
  }
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteValidateEncodingFlag>
      writer(text);
  if (!value.Accept(writer)) {
    refuse(place, "a message or tool has a number that is not finite, or a text that is no UTF-8");
  }
  return {text.GetString(), text.GetSize()};
}

std::string json_of(std::string_view text, const RecordPlace& place) {
  return json_of(rapidjson::Value(rapidjson::StringRef(
                     text.data(), static_cast<rapidjson::SizeType>(text.size()))),
                 place);
}

std::string text_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

RecordMessage message_of(std::string_view role, std::string_view content,
                         const RecordPlace& place) {
  return {.role = std::string(role),
          .json = fmt::format(R"({{"role":{},"content":{}}})", json_of(role, place),
                              json_of(content, place)),
          .content = std::string(content)};
}

// Members of a conversation that templates know, as further members of an object. Tools are often
// a text of JSON, since columns of tables hold no lists.
std::string others_of(const rapidjson::Value& object, const RecordPlace& place) {
  std::string out;
  for (const std::string_view name : {"tools", "documents"}) {
    const rapidjson::Value* const value = member(object, name);
    if (value == nullptr) continue;
    const bool is_text = value->IsString();
    if (is_text && value->GetStringLength() == 0) continue;
    if (is_text) {
      rapidjson::Document list;
      list.Parse<rapidjson::kParseIterativeFlag>(value->GetString(), value->GetStringLength());
      if (list.HasParseError() || !list.IsArray()) {
        refuse(place, fmt::format("\"{}\" is a text that is no list of JSON", name));
      }
    } else if (!value->IsArray()) {
      refuse(place, fmt::format("\"{}\" is no list", name));
    }
    out += fmt::format(R"(,"{}":{})", name, is_text ? text_of(*value) : json_of(*value, place));
  }
  return out;
}

// Reads the messages of one list.
class MessageReader {
 public:
  MessageReader(const ChatFields& fields, const RecordPlace& place)
      : fields_(fields), place_(place) {}

  std::vector<RecordMessage> read(const rapidjson::Value& list, std::string_view field) const {
    if (!list.IsArray()) refuse(place_, fmt::format("\"{}\" is no list of messages", field));
    if (list.Empty()) refuse(place_, fmt::format("\"{}\" is empty", field));
    std::vector<RecordMessage> messages;
    for (const rapidjson::Value& entry : list.GetArray()) {
      const std::string what = fmt::format("message {} of \"{}\"", messages.size() + 1, field);
      if (!entry.IsObject()) refuse(place_, what + " is no object");
      messages.push_back(member(entry, "from") != nullptr ? of_speaker(entry, what)
                                                          : of_role(entry, what));
      messages.back().is_learnt = weight_of(entry, what);
    }
    return messages;
  }

 private:
  RecordMessage of_role(const rapidjson::Value& entry, const std::string& what) const {
    const rapidjson::Value* const role = member(entry, "role");
    if (role == nullptr || !role->IsString()) refuse(place_, what + " has no \"role\"");
    const std::string name = text_of(*role);
    if (std::ranges::find(kRoles, name) == kRoles.end() &&
        std::ranges::find(fields_.roles, name) == fields_.roles.end()) {
      refuse(place_, fmt::format("{} has the role \"{}\", expected one of {}; name others in "
                                 "data.chat.roles",
                                 what, name, fmt::join(kRoles, ", ")));
    }
    const rapidjson::Value* const content = member(entry, "content");
    return {.role = name,
            .json = json_of(entry, place_),
            .content = content != nullptr && content->IsString() ? text_of(*content) : ""};
  }

  RecordMessage of_speaker(const rapidjson::Value& entry, const std::string& what) const {
    const rapidjson::Value* const from = member(entry, "from");
    const rapidjson::Value* const value = member(entry, "value");
    if (!from->IsString() || value == nullptr || !value->IsString()) {
      refuse(place_, what + " has no text \"from\" and \"value\"");
    }
    const std::string speaker = text_of(*from);
    const auto found = std::ranges::find(kSpeakers, speaker,
                                         &std::pair<std::string_view, std::string_view>::first);
    if (found != kSpeakers.end()) return message_of(found->second, text_of(*value), place_);
    if (std::ranges::find(fields_.roles, speaker) != fields_.roles.end()) {
      return message_of(speaker, text_of(*value), place_);
    }
    std::vector<std::string_view> speakers;
    for (const auto& [name, role] : kSpeakers) speakers.push_back(name);
    refuse(place_, fmt::format("{} is from \"{}\", expected one of {}; name others in "
                               "data.chat.roles",
                               what, speaker, fmt::join(speakers, ", ")));
  }

  bool weight_of(const rapidjson::Value& entry, const std::string& what) const {
    const rapidjson::Value* const weight = member(entry, "weight");
    if (weight == nullptr) return true;
    if (weight->IsNumber() && (weight->GetDouble() == 0 || weight->GetDouble() == 1)) {
      return weight->GetDouble() == 1;
    }
    refuse(place_, what + " has a \"weight\" that is neither 0 nor 1");
  }

  const ChatFields& fields_;
  const RecordPlace& place_;
};

// The text of a member that may be missing.
std::string optional_text(const rapidjson::Value& object, std::string_view name,
                          const RecordPlace& place) {
  const rapidjson::Value* const value = member(object, name);
  if (value == nullptr) return "";
  if (!value->IsString()) refuse(place, fmt::format("the field \"{}\" is no text", name));
  return text_of(*value);
}

bool is_alpaca(const rapidjson::Value& object) {
  return member(object, "instruction") != nullptr && member(object, "output") != nullptr;
}

ChatRecord chat_of_alpaca(const rapidjson::Value& object, const RecordPlace& place) {
  if (const rapidjson::Value* const history = member(object, "history");
      history != nullptr && !(history->IsArray() && history->Empty())) {
    refuse(place, "\"history\" beside \"instruction\" is not read; give \"messages\"");
  }
  ChatRecord chat;
  const std::string input = optional_text(object, "input", place);
  const std::string instruction = optional_text(object, "instruction", place);
  chat.messages.push_back(
      message_of("user", input.empty() ? instruction : instruction + "\n" + input, place));
  chat.messages.push_back(message_of("assistant", optional_text(object, "output", place), place));
  return chat;
}

ChatRecord chat_of_list(const rapidjson::Value& object, const ChatFields& fields,
                        const RecordPlace& place) {
  const bool is_sharegpt = !fields.messages && member(object, "messages") == nullptr &&
                           member(object, "conversations") != nullptr;
  const std::string name =
      is_sharegpt ? std::string("conversations") : fields.messages.value_or("messages");
  const rapidjson::Value& list = field_on_line(object, name, kChatSection, place.path, place.line);
  return {.messages = MessageReader(fields, place).read(list, name),
          .others = others_of(object, place),
          .prompt = {}};
}

std::string prompt_of_alpaca(const rapidjson::Value& object, const RecordPlace& place) {
  const std::string instruction = optional_text(object, "instruction", place);
  const std::string input = optional_text(object, "input", place);
  return input.empty()
             ? fmt::format(
                   "Below is an instruction that describes a task. Write a response that "
                   "appropriately completes the request.\n\n### Instruction:\n{}\n\n### "
                   "Response:\n",
                   instruction)
             : fmt::format(
                   "Below is an instruction that describes a task, paired with an input "
                   "that provides further context. Write a response that appropriately "
                   "completes the request.\n\n### Instruction:\n{}\n\n### Input:\n{}\n\n### "
                   "Response:\n",
                   instruction, input);
}

}  // namespace

std::span<const std::string_view> known_roles() { return kRoles; }

std::string first_messages(const ChatRecord& chat, int64_t count) {
  std::string out = R"({"messages":[)";
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    out += nth(chat.messages, i).json;
  }
  return out + ']' + chat.others + '}';
}

ChatRecord chat_record(const rapidjson::Value& object, const ChatFields& fields,
                       const RecordPlace& place) {
  const bool names_none = !fields.messages && member(object, "messages") == nullptr;
  ChatRecord chat = names_none && is_alpaca(object) ? chat_of_alpaca(object, place)
                                                    : chat_of_list(object, fields, place);
  const std::string system = optional_text(object, "system", place);
  if (system.empty()) return chat;
  if (chat.messages.front().role == "system") {
    refuse(place, "\"system\" and the first message both are the system's; remove one of them");
  }
  chat.messages.insert(chat.messages.begin(), message_of("system", system, place));
  return chat;
}

PromptAndCompletion prompt_record(const rapidjson::Value& object, const PromptFields& fields,
                                  const RecordPlace& place) {
  for (const char* const beside : {"system", "history"}) {
    const rapidjson::Value* const value = member(object, beside);
    if (value == nullptr || (value->IsString() && value->GetStringLength() == 0) ||
        (value->IsArray() && value->Empty())) {
      continue;
    }
    refuse(place, fmt::format("\"{}\" beside a prompt is not read; put it into the prompt, or give "
                              "\"messages\" and data.format chat",
                              beside));
  }
  const bool names_none = !fields.prompt && !fields.completion;
  if (names_none && member(object, "prompt") == nullptr && is_alpaca(object)) {
    return {.prompt = prompt_of_alpaca(object, place),
            .completion = optional_text(object, "output", place),
            .chat = {}};
  }
  const std::string first = fields.prompt.value_or("prompt");
  const std::string second = fields.completion.value_or("completion");
  const auto& prompt = field_on_line(object, first, kPromptSection, place.path, place.line);
  const auto& completion = field_on_line(object, second, kPromptSection, place.path, place.line);
  if (prompt.IsString() && completion.IsString()) {
    return {.prompt = text_of(prompt), .completion = text_of(completion), .chat = {}};
  }
  if (!prompt.IsArray() || !completion.IsArray()) {
    refuse(place, fmt::format("\"{}\" and \"{}\" are neither two texts nor two lists of messages",
                              first, second));
  }
  const ChatFields any{.messages = {}, .roles = fields.roles};
  const MessageReader reader(any, place);
  ChatRecord chat{
      .messages = reader.read(prompt, first), .others = others_of(object, place), .prompt = {}};
  chat.prompt = std::ssize(chat.messages);
  std::ranges::move(reader.read(completion, second), std::back_inserter(chat.messages));
  return {.prompt = "", .completion = "", .chat = std::move(chat)};
}

namespace {

std::vector<int32_t> whole_numbers(const rapidjson::Value& list, std::string_view name,
                                   const RecordPlace& place) {
  if (!list.IsArray()) refuse(place, fmt::format("\"{}\" is no list of numbers", name));
  std::vector<int32_t> numbers;
  for (const rapidjson::Value& value : list.GetArray()) {
    if (!value.IsInt()) {
      refuse(place, fmt::format("\"{}\"[{}] is no whole number of 32 bits", name, numbers.size()));
    }
    numbers.push_back(value.GetInt());
  }
  return numbers;
}

}  // namespace

SupervisedTokens tokenized_record(const rapidjson::Value& object, int64_t vocabulary,
                                  const RecordPlace& place) {
  constexpr std::string_view kIds = "input_ids", kLabels = "labels", kMask = "attention_mask";
  SupervisedTokens record{
      .ids = whole_numbers(
          field_on_line(object, std::string(kIds), "data.format tokenized", place.path, place.line),
          kIds, place),
      .loss_mask = {}};
  const auto check_size = [&](const std::vector<int32_t>& values, std::string_view name) {
    if (values.size() == record.ids.size()) return;
    refuse(place, fmt::format("\"{}\" has {} numbers, and \"{}\" {}", name, values.size(), kIds,
                              record.ids.size()));
  };
  for (size_t i = 0; i < record.ids.size(); ++i) {
    if (record.ids[i] >= 0 && record.ids[i] < vocabulary) continue;
    refuse(place, fmt::format("\"{}\"[{}] is {}, and the model has {} tokens", kIds, i,
                              record.ids[i], vocabulary));
  }
  record.loss_mask.assign(record.ids.size(), 1);
  if (const rapidjson::Value* const labels = member(object, kLabels)) {
    const std::vector<int32_t> values = whole_numbers(*labels, kLabels, place);
    check_size(values, kLabels);
    for (size_t i = 0; i < values.size(); ++i) {
      record.loss_mask[i] = values[i] != kNoLabel ? 1 : 0;
      if (values[i] == kNoLabel || values[i] == record.ids[i]) continue;
      refuse(place, fmt::format("\"{}\"[{}] is {}, neither -100 nor {}, the token there", kLabels,
                                i, values[i], record.ids[i]));
    }
  }
  const rapidjson::Value* const attention = member(object, kMask);
  if (attention == nullptr) return record;
  const std::vector<int32_t> seen = whole_numbers(*attention, kMask, place);
  check_size(seen, kMask);
  // Padding at the end is left out; elsewhere nothing here leaves a token out.
  const auto end = std::ranges::find(seen, 0);
  if (std::ranges::any_of(end, seen.end(), [](int32_t value) { return value != 0; })) {
    refuse(place, fmt::format("\"{}\" leaves out tokens before others that it has", kMask));
  }
  const auto kept = to_size(end - seen.begin());
  record.ids.resize(kept);
  record.loss_mask.resize(kept);
  return record;
}

}  // namespace ds
