#include "data/chat_format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <ranges>
#include <vector>

#include "core/status/error.h"
#include "core/text/date.h"
#include "core/values/index.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {
namespace {

constexpr int64_t kLargestConfig = int64_t{1} << 26;
constexpr const char* kDefault = "default";
constexpr const char* kForTools = "tool_use";
constexpr std::array kRoles{"bos_token", "eos_token", "unk_token", "sep_token",
                            "pad_token", "cls_token", "mask_token"};

std::string text_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

// Whether an integer has more than 64 bits with a sign: the parser makes it a number with a
// fraction.
bool is_too_large(std::string_view number) {
  constexpr size_t kMostDigits = 18;  // that any 64 bits hold
  if (number.size() <= kMostDigits || number.find_first_of(".Ee") != std::string_view::npos) {
    return false;
  }
  int64_t value = 0;
  return std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc();
}

// What of valid JSON templates are not given; empty: nothing. Levels are bounded because copying
// values costs stack.
std::string beyond_limits(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (in_text) {
      continue;
    } else if (c == '[' || c == '{') {
      if (++depth > ChatFormat::kDeepest)
        return fmt::format("nested deeper than {} levels", ChatFormat::kDeepest);
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const size_t end = std::min(json.find_first_not_of("+-.0123456789Ee", i), json.size());
      const std::string_view number = json.substr(i, end - i);
      if (is_too_large(number)) {
        return fmt::format("the integer {} has more than 64 bits", number.substr(0, 40));
      }
      i = end - 1;
    }
  }
  return "";
}

// In the place of a member of that name, or behind the others.
void put(rapidjson::Value& object, const rapidjson::Value& name, const rapidjson::Value& value,
         rapidjson::Document::AllocatorType& memory) {
  const auto found = object.FindMember(name);
  if (found != object.MemberEnd()) {
    found->value.CopyFrom(value, memory);
  } else {
    object.AddMember(rapidjson::Value(name, memory), rapidjson::Value(value, memory), memory);
  }
}

// A message as templates are given it by transformers: without members that are null, and with its
// reasoning by the names that templates read.
rapidjson::Value normalized(const rapidjson::Value& message,
                            rapidjson::Document::AllocatorType& memory) {
  constexpr std::array kReasoning{"reasoning_content", "thinking", "reasoning"};
  const rapidjson::Value* reasoning = nullptr;
  for (const char* const name : kReasoning) {
    if (reasoning == nullptr) reasoning = last_member(message, name);
  }
  rapidjson::Value out(rapidjson::kObjectType);
  if (reasoning != nullptr) {
    put(out, rapidjson::Value(rapidjson::StringRef(kReasoning[1])), *reasoning, memory);
  }
  for (const auto& member : message.GetObject()) {
    if (!member.value.IsNull()) put(out, member.name, member.value, memory);
  }
  if (reasoning != nullptr) {
    put(out, rapidjson::Value(rapidjson::StringRef(kReasoning[0])), *reasoning, memory);
  }
  return out;
}

// The conversation as the object that templates are given.
rapidjson::Document variables_of(std::string_view conversation, const std::string& place) {
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
  rapidjson::Document document;
  document.Parse<kFlags>(conversation.data(), conversation.size());
  const auto refuse = [&](const std::string& why) {
    return DataError(
        fmt::format("{}: {}; expected [{{\"role\": \"user\", \"content\": \"...\"}}, ...] or "
                    "{{\"messages\": [...], \"tools\": [...]}}",
                    place, why));
  };
  if (document.HasParseError()) {
    throw refuse(fmt::format("not valid JSON at byte {}", document.GetErrorOffset()));
  }
  if (const std::string why = beyond_limits(conversation); !why.empty()) throw refuse(why);
  auto& memory = document.GetAllocator();
  if (document.IsArray()) {
    rapidjson::Value messages = std::move(static_cast<rapidjson::Value&>(document));
    document.SetObject();
    document.AddMember("messages", messages, memory);
  }
  if (!document.IsObject()) throw refuse("the conversation is no list and no object");
  rapidjson::Value once(rapidjson::kObjectType);
  for (const auto& member : document.GetObject()) put(once, member.name, member.value, memory);
  static_cast<rapidjson::Value&>(document) = std::move(once);
  const auto messages = document.FindMember("messages");
  if (messages == document.MemberEnd() || !messages->value.IsArray()) {
    throw refuse("there is no list \"messages\"");
  }
  if (messages->value.Empty()) throw refuse("the conversation is empty");
  int number = 0;
  for (rapidjson::Value& message : messages->value.GetArray()) {
    ++number;
    if (!message.IsObject()) throw refuse(fmt::format("message {} is no object", number));
    const rapidjson::Value* const role = last_member(message, "role");
    if (role == nullptr || !role->IsString()) {
      throw refuse(fmt::format("message {} has no \"role\"", number));
    }
    message = normalized(message, memory);
  }
  for (const char* const name : {"tools", "documents"}) {
    if (!document.HasMember(name)) {
      document.AddMember(rapidjson::StringRef(name), rapidjson::Value(), memory);
    }
  }
  return document;
}

}  // namespace

// The templates of a member: a text, texts by their names, or a list of those with names.
void ChatFormat::add_templates(const rapidjson::Value& member, const std::string& place,
                               std::map<std::string, Named>& found) {
  const auto refuse = [&] {
    return DataError(place + " is no text and no list of {\"name\": ..., \"template\": ...}");
  };
  const auto add = [&](const rapidjson::Value& name, const rapidjson::Value& text) {
    const std::string called = text_of(name);
    const std::string where = fmt::format("{} \"{}\"", place, called);
    if (!text.IsString()) throw DataError(fmt::format("{}: \"{}\" is no text", place, called));
    found.insert_or_assign(called, Named{text_of(text), where});
  };
  if (member.IsString()) {
    found.insert_or_assign(kDefault, Named{text_of(member), place});
  } else if (member.IsObject()) {
    for (const auto& entry : member.GetObject()) add(entry.name, entry.value);
  } else if (member.IsArray()) {
    for (const rapidjson::Value& entry : member.GetArray()) {
      if (!entry.IsObject()) throw refuse();
      const rapidjson::Value* const name = last_member(entry, "name");
      const rapidjson::Value* const text = last_member(entry, "template");
      if (name == nullptr || text == nullptr || !name->IsString() || !text->IsString()) {
        throw refuse();
      }
      add(*name, *text);
    }
  } else {
    throw refuse();
  }
}

std::map<std::string, ChatFormat::Named> ChatFormat::templates_of(FileSystem& files,
                                                                  const std::string& folder) {
  std::map<std::string, Named> found;
  const auto add_file = [&](const std::string& name, const std::string& path) {
    found[name] = {.source = files.read_text(path, ChatTemplate::kLargestSource), .path = path};
  };
  const auto add_member = [&](const std::string& name) {
    const std::string path = join_path(folder, name);
    if (!files.exists(path)) return;
    const rapidjson::Document document = read_json_object(files, path, kLargestConfig);
    const rapidjson::Value* const member = last_member(document, "chat_template");
    if (member != nullptr) add_templates(*member, path + ": chat_template", found);
  };
  const std::string main = join_path(folder, "chat_template.jinja");
  const std::string others = join_path(folder, "additional_chat_templates");
  if (files.exists(main)) add_file(kDefault, main);
  if (files.exists(others)) {
    for (const DirectoryEntry& entry : files.list(others)) {
      constexpr std::string_view kEnding = ".jinja";
      if (!entry.name.ends_with(kEnding)) continue;
      add_file(entry.name.substr(0, entry.name.size() - kEnding.size()),
               join_path(others, entry.name));
    }
  }
  if (!found.empty()) return found;  // files win over what the configuration has
  add_member("tokenizer_config.json");
  if (found.empty()) add_member("chat_template.json");
  return found;
}

ChatFormat ChatFormat::read(FileSystem& files, const std::string& tokenizer,
                            const std::string& chosen, const std::string& option) {
  ChatFormat format;
  for (const char* const role : kRoles) {
    if (auto token = token_of_role(files, tokenizer, role)) format.tokens_[role] = *token;
  }
  const std::string folder = tokenizer_folder(files, tokenizer);
  std::map<std::string, Named> found;
  if (tokenizer != "byte") found = templates_of(files, folder);
  if (!chosen.empty() && !found.contains(chosen) && files.exists(chosen)) {
    const std::string source = files.read_text(chosen, ChatTemplate::kLargestSource);
    format.templates_.emplace(kDefault, ChatTemplate::parse(source, chosen));
    return format;
  }
  std::vector<std::string> names;
  for (const auto& [name, named] : found) names.push_back(name);
  if (!chosen.empty() && !found.contains(chosen)) {
    throw InputMissing(fmt::format(
        "{} {}: no such file, and none of the templates of {} ({})", option, chosen, folder,
        names.empty() ? "it has none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  for (const auto& [name, named] : found) {
    const bool is_used = chosen.empty() ? name == kDefault || name == kForTools : name == chosen;
    if (!is_used) continue;
    const std::string called = chosen.empty() ? name : kDefault;
    format.templates_.emplace(called, ChatTemplate::parse(named.source, named.path));
  }
  if (!format.templates_.contains(kDefault)) {
    throw InputMissing(fmt::format(
        "{}: {}; {} names a file with one", folder,
        names.empty() ? "there is no chat template beside the tokenizer (chat_template.jinja, or "
                        "chat_template in tokenizer_config.json)"
                      : fmt::format("none of its chat templates is the default one: {}",
                                    fmt::join(names, ", ")),
        option));
  }
  return format;
}

bool ChatFormat::exists(FileSystem& files, const std::string& tokenizer) {
  return tokenizer != "byte" && !templates_of(files, tokenizer_folder(files, tokenizer)).empty();
}

const ChatTemplate& ChatFormat::chosen_for(bool has_tools) const {
  const auto for_tools = templates_.find(kForTools);
  return has_tools && for_tools != templates_.end() ? for_tools->second : templates_.at(kDefault);
}

RenderedChat ChatFormat::render(std::string_view conversation, const std::string& place,
                                bool replies) const {
  rapidjson::Document variables = variables_of(conversation, place);
  auto& memory = variables.GetAllocator();
  // What the conversation itself gives wins, as arguments of transformers' apply_chat_template do.
  for (const auto& [role, token] : tokens_) {
    if (variables.HasMember(role.c_str())) continue;
    variables.AddMember(
        rapidjson::Value(role.c_str(), memory),
        rapidjson::Value(token.data(), narrow<rapidjson::SizeType>(token.size()), memory), memory);
  }
  put(variables, rapidjson::Value("add_generation_prompt"), rapidjson::Value(replies), memory);
  try {
    // Otherwise it is the time by the clock on the wall, as Python's datetime.now().
    const ChatClock clock = [this] { return time_.value_or(local_time(std::time(nullptr))); };
    return chosen_for(!variables["tools"].IsNull()).render(variables, clock);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", place, error.what()));
  }
}

}  // namespace ds
