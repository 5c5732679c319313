#include "data/supervised/record_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/values/index.h"
#include "data/chat_format.h"
#include "data/text/record_lines.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

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
    refuse_record(place, fmt::format("a message or tool is nested deeper than {} levels",
                                     ChatFormat::kDeepest));
  }
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteValidateEncodingFlag>
      writer(text);
  if (!value.Accept(writer)) {
    refuse_record(place,
                  "a message or tool has a number that is not finite, or a text that is no UTF-8");
  }
  return {text.GetString(), text.GetSize()};
}

std::string json_of(std::string_view text, const RecordPlace& place) {
  return json_of(rapidjson::Value(rapidjson::StringRef(
                     text.data(), static_cast<rapidjson::SizeType>(text.size()))),
                 place);
}

}  // namespace

void refuse_record(const RecordPlace& place, const std::string& defect) {
  refuse_line(place.path, place.line, defect);
}

std::span<const std::string_view> known_roles() { return kRoles; }

bool replies(const RecordMessage& message) {
  return message.role == "assistant" || message.role == "model";
}

std::string first_messages(const ChatRecord& chat, int64_t count) {
  std::string out = R"({"messages":[)";
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    out += nth(chat.messages, i).json;
  }
  return out + ']' + chat.others + '}';
}

const rapidjson::Value* member_of(const rapidjson::Value& object, std::string_view name) {
  const rapidjson::Value* const found = last_member(object, name);
  return found == nullptr || found->IsNull() ? nullptr : found;
}

std::string optional_text(const rapidjson::Value& object, std::string_view name,
                          const RecordPlace& place) {
  const rapidjson::Value* const value = member_of(object, name);
  if (value == nullptr) return "";
  if (!value->IsString()) refuse_record(place, fmt::format("the field \"{}\" is no text", name));
  return string_of(*value);
}

void refuse_beside(const rapidjson::Value& object, std::initializer_list<std::string_view> names,
                   std::string_view instead, const RecordPlace& place) {
  for (const std::string_view name : names) {
    const rapidjson::Value* const value = member_of(object, name);
    const bool says_nothing = value == nullptr ||
                              (value->IsString() && value->GetStringLength() == 0) ||
                              (value->IsArray() && value->Empty());
    if (!says_nothing) refuse_record(place, fmt::format("\"{}\" {}", name, instead));
  }
}

RecordMessage message_of(std::string_view role, std::string_view content,
                         const RecordPlace& place) {
  return {.role = std::string(role),
          .json = fmt::format(R"({{"role":{},"content":{}}})", json_of(role, place),
                              json_of(content, place)),
          .content = std::string(content)};
}

std::string others_of(const rapidjson::Value& object, const RecordPlace& place) {
  std::string out;
  for (const std::string_view name : {"tools", "documents"}) {
    const rapidjson::Value* const value = member_of(object, name);
    if (value == nullptr) continue;
    const bool is_text = value->IsString();
    if (is_text && value->GetStringLength() == 0) continue;
    if (is_text) {
      rapidjson::Document list;
      list.Parse<rapidjson::kParseIterativeFlag>(value->GetString(), value->GetStringLength());
      if (list.HasParseError() || !list.IsArray()) {
        refuse_record(place, fmt::format("\"{}\" is a text that is no list of JSON", name));
      }
    } else if (!value->IsArray()) {
      refuse_record(place, fmt::format("\"{}\" is no list", name));
    }
    out += fmt::format(R"(,"{}":{})", name, is_text ? string_of(*value) : json_of(*value, place));
  }
  return out;
}

namespace {

// Reads the messages of one list.
class MessageReader {
 public:
  MessageReader(std::span<const std::string> roles, const RecordPlace& place)
      : roles_(roles), place_(place) {}

  std::vector<RecordMessage> read(const rapidjson::Value& list, std::string_view field) const {
    if (!list.IsArray()) refuse_record(place_, fmt::format("\"{}\" is no list of messages", field));
    if (list.Empty()) refuse_record(place_, fmt::format("\"{}\" is empty", field));
    std::vector<RecordMessage> messages;
    for (const rapidjson::Value& entry : list.GetArray()) {
      messages.push_back(
          read_one(entry, fmt::format("message {} of \"{}\"", messages.size() + 1, field)));
    }
    return messages;
  }

  RecordMessage read_one(const rapidjson::Value& entry, const std::string& what) const {
    if (!entry.IsObject()) refuse_record(place_, what + " is no object");
    RecordMessage message =
        member_of(entry, "from") != nullptr ? of_speaker(entry, what) : of_role(entry, what);
    message.is_learnt = weight_of(entry, what);
    return message;
  }

 private:
  RecordMessage of_role(const rapidjson::Value& entry, const std::string& what) const {
    const rapidjson::Value* const role = member_of(entry, "role");
    if (role == nullptr || !role->IsString()) refuse_record(place_, what + " has no \"role\"");
    const std::string name = string_of(*role);
    if (std::ranges::find(kRoles, name) == kRoles.end() &&
        std::ranges::find(roles_, name) == roles_.end()) {
      refuse_record(place_,
                    fmt::format("{} has the role \"{}\", expected one of {}; name others in "
                                "data.chat.roles",
                                what, name, fmt::join(kRoles, ", ")));
    }
    const rapidjson::Value* const content = member_of(entry, "content");
    return {.role = name,
            .json = json_of(entry, place_),
            .content = content != nullptr && content->IsString() ? string_of(*content) : ""};
  }

  RecordMessage of_speaker(const rapidjson::Value& entry, const std::string& what) const {
    const rapidjson::Value* const from = member_of(entry, "from");
    const rapidjson::Value* const value = member_of(entry, "value");
    if (!from->IsString() || value == nullptr || !value->IsString()) {
      refuse_record(place_, what + " has no text \"from\" and \"value\"");
    }
    const std::string speaker = string_of(*from);
    const auto found = std::ranges::find(kSpeakers, speaker,
                                         &std::pair<std::string_view, std::string_view>::first);
    if (found != kSpeakers.end()) return message_of(found->second, string_of(*value), place_);
    if (std::ranges::find(roles_, speaker) != roles_.end()) {
      return message_of(speaker, string_of(*value), place_);
    }
    std::vector<std::string_view> speakers;
    for (const auto& [name, role] : kSpeakers) speakers.push_back(name);
    refuse_record(place_, fmt::format("{} is from \"{}\", expected one of {}; name others in "
                                      "data.chat.roles",
                                      what, speaker, fmt::join(speakers, ", ")));
  }

  bool weight_of(const rapidjson::Value& entry, const std::string& what) const {
    const rapidjson::Value* const weight = member_of(entry, "weight");
    if (weight == nullptr) return true;
    if (weight->IsNumber() && (weight->GetDouble() == 0 || weight->GetDouble() == 1)) {
      return weight->GetDouble() == 1;
    }
    refuse_record(place_, what + " has a \"weight\" that is neither 0 nor 1");
  }

  const std::span<const std::string> roles_;
  const RecordPlace& place_;
};

}  // namespace

std::vector<RecordMessage> messages_of(const rapidjson::Value& list, std::string_view field,
                                       std::span<const std::string> roles,
                                       const RecordPlace& place) {
  return MessageReader(roles, place).read(list, field);
}

RecordMessage message_in(const rapidjson::Value& entry, std::string_view field,
                         std::span<const std::string> roles, const RecordPlace& place) {
  return MessageReader(roles, place).read_one(entry, fmt::format("\"{}\"", field));
}

}  // namespace ds
