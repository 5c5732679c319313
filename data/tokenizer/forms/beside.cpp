#include "data/tokenizer/forms/beside.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "data/text/text_kind.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

using rapidjson::Value;

constexpr const char* kWriteOne =
    "write a tokenizer.json with transformers, "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kModelConfig = "config.json";
constexpr const char* kAddedTokens = "added_tokens.json";
constexpr const char* kDecoder = "added_tokens_decoder";

constexpr const char* kWantedId = "an id, expected 0 to 2147483647";
bool is_id(int64_t number) { return number >= 0 && number <= std::numeric_limits<int32_t>::max(); }

}  // namespace

Beside::Beside(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  config_ = object_at(kTokenizerConfig);
  if (flag("split_special_tokens", false)) {
    throw Unsupported(fmt::format(
        "{}: split_special_tokens asks that special tokens in texts are read letter by letter, "
        "which is not supported; remove the key, and they are read as what they are",
        beside(kTokenizerConfig)));
  }
}

std::optional<std::string> Beside::tokenizer_class() const {
  const auto named = text_of(config_, kTokenizerConfig, "tokenizer_class");
  return named ? named : text_of(object_at(kModelConfig), kModelConfig, "tokenizer_class");
}

std::optional<std::string> Beside::model_type() const {
  return text_of(object_at(kModelConfig), kModelConfig, "model_type");
}

std::optional<std::string> Beside::named_class() const {
  const std::optional<std::string> named = tokenizer_class();
  return named ? named : model_type();
}

void Beside::refuse_class(const std::string& name) const {
  throw Unsupported(
      fmt::format("{}: what the tokenizer of \"{}\" does besides is not known here; {}", path_,
                  name, kWriteOne));
}

void Beside::refuse_role(const char* role, const std::string& token) const {
  throw Unsupported(
      fmt::format("{}: its {} \"{}\" is no token of it; {}", path_, role, token, kWriteOne));
}

bool Beside::flag(const char* key, bool fallback) const {
  return flag_of(config_, key, key).value_or(fallback);
}

std::optional<int64_t> Beside::count(const char* key) const {
  const Value* value = last_member(config_, key);
  if (value == nullptr) return std::nullopt;
  if (!value->IsInt64()) refuse_value(kTokenizerConfig, key, "an integer");
  return value->GetInt64();
}

std::string Beside::token(const char* role, const char* fallback) const {
  const Value* value = last_member(config_, role);
  if (value == nullptr) return fallback;
  if (value->IsObject()) value = last_member(*value, "content");
  if (value == nullptr || !value->IsString())
    refuse_value(kTokenizerConfig, role, "a text, or an object whose \"content\" is one");
  return string_of(*value);
}

std::vector<std::string> Beside::tokens_in_roles() const {
  std::vector<std::string> out;
  for (const char* const role : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                                 "cls_token", "mask_token"}) {
    if (says(role)) out.push_back(token(role, ""));
  }
  const auto add = [&](const Value& named) {
    const Value* const content = named.IsObject() ? last_member(named, "content") : &named;
    if (content != nullptr && content->IsString()) out.push_back(string_of(*content));
  };
  for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
    const Value* const more = last_member(config_, key);
    if (more != nullptr && more->IsArray()) {
      for (const Value& named : more->GetArray()) add(named);
    } else if (more != nullptr && more->IsObject()) {  // by names of their own
      for (const auto& named : more->GetObject()) add(named.value);
    }
  }
  return out;
}

std::map<std::string, AddedBeside> Beside::added() const {
  std::map<std::string, AddedBeside> out;
  const rapidjson::Document apart = object_at(kAddedTokens);
  for (const auto& item : apart.GetObject()) {
    const std::string token = string_of(item.name);
    if (!item.value.IsInt64() || !is_id(item.value.GetInt64()))
      refuse_value(kAddedTokens, token, kWantedId);
    out[token] = {.id = item.value.GetInt64()};
  }
  const Value* list = last_member(config_, kDecoder);
  if (list == nullptr) return out;
  if (!list->IsObject()) refuse_value(kTokenizerConfig, kDecoder, "an object");
  for (const auto& item : list->GetObject()) {
    const std::string id = string_of(item.name), key = fmt::format("{}.{}", kDecoder, id);
    const Value* content = item.value.IsObject() ? last_member(item.value, "content") : nullptr;
    if (content == nullptr || !content->IsString())
      refuse_value(kTokenizerConfig, key, "an object whose \"content\" is a text");
    AddedBeside& token = out[string_of(*content)];
    token.id = parse_id(id, key);
    for (size_t i = 0; i < kAddedFlags.size(); ++i) {
      const char* const name = kAddedFlags.at(i);
      const auto said = flag_of(item.value, name, fmt::format("{}.{}", key, name));
      if (said) token.flags.at(i) = said;
    }
  }
  return out;
}

int64_t Beside::parse_id(const std::string& text, const std::string& key) const {
  int64_t id = -1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, id);
  if (error != std::errc() || end != last || !is_id(id))
    throw DataError(
        fmt::format("{}: the key \"{}\" is not {}", beside(kTokenizerConfig), key, kWantedId));
  return id;
}

std::optional<bool> Beside::flag_of(const Value& object, const char* name,
                                    const std::string& key) const {
  const Value* value = last_member(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->IsBool()) refuse_value(kTokenizerConfig, key, "true or false");
  return value->GetBool();
}

std::optional<std::string> Beside::text_of(const Value& object, const char* file,
                                           const char* key) const {
  const Value* value = last_member(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->IsString()) refuse_value(file, key, "a text");
  return string_of(*value);
}

void Beside::refuse_value(const char* file, const std::string& key, const char* wanted) const {
  throw DataError(fmt::format("{}: \"{}\" is not {}", beside(file), key, wanted));
}

std::string Beside::beside(const char* name) const {
  return join_path(parent_directory(path_), name);
}

rapidjson::Document Beside::object_at(const char* name) const {
  const std::string file = beside(name);
  if (files_.exists(file)) return read_json_object(files_, file, kLargestVocabulary);
  rapidjson::Document none;
  none.SetObject();
  return none;
}

bool is_class(const std::string& named, const std::string& known) {
  std::string name = named, small = known;
  for (const char* const ending : {"Fast", "Tokenizer"}) {
    if (name.ends_with(ending)) name.erase(name.rfind(ending));
  }
  std::ranges::transform(small, small.begin(), ascii_lower);
  return name == known || name == small;
}

void write_added_tokens(JsonText& json, const std::map<std::string, AddedBeside>& added) {
  json.out().Key("added_tokens");
  json.out().StartArray();
  for (const auto& [token, how] : added) {
    json.out().StartObject();
    json.out().Key("id");
    json.out().Int64(how.id);
    json.text("content", token);
    for (size_t i = 0; i < kAddedFlags.size(); ++i) {
      if (how.flags.at(i)) json.flag(kAddedFlags.at(i), *how.flags.at(i));
    }
    json.out().EndObject();
  }
  json.out().EndArray();
}

void write_roles(JsonText& json, const std::map<std::string, std::string>& roles) {
  json.out().Key("roles");
  json.out().StartObject();
  for (const auto& [role, token] : roles) json.text(role.c_str(), token);
  json.out().EndObject();
}

void write_template(JsonText& json, const std::optional<FrameToken>& before,
                    const std::optional<FrameToken>& after) {
  json.begin("post_processor", "TemplateProcessing");
  json.out().Key("single");
  json.out().StartArray();
  const auto part = [&](const char* kind, const std::string& id) {
    json.out().StartObject();
    json.out().Key(kind);
    json.out().StartObject();
    json.text("id", id);
    json.out().EndObject();
    json.out().EndObject();
  };
  if (before) part("SpecialToken", before->token);
  part("Sequence", "A");
  if (after) part("SpecialToken", after->token);
  json.out().EndArray();
  json.out().Key("special_tokens");
  json.out().StartObject();
  for (const auto* side : {&before, &after}) {
    if (!*side) continue;
    json.string((*side)->token);
    json.out().StartObject();
    json.out().Key("ids");
    json.out().StartArray();
    json.out().Int64((*side)->id);
    json.out().EndArray();
    json.out().EndObject();
  }
  json.out().EndObject();
  json.out().EndObject();
}

std::vector<std::string_view> lines_of_file(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

}  // namespace ds
