#include "data/tokenizer/forms/beside.h"

#include <algorithm>

#include "data/text/text_kind.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

using rapidjson::Value;

constexpr const char* kWriteOne =
    "write a tokenizer.json with transformers, "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";

}  // namespace

Beside::Beside(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  config_ = object_at("tokenizer_config.json");
}

std::optional<std::string> Beside::tokenizer_class() const {
  const rapidjson::Document model = object_at("config.json");
  const Value* named = member(config_, "tokenizer_class");
  if (named == nullptr) named = member(model, "tokenizer_class");
  if (named == nullptr || !named->IsString()) return std::nullopt;
  return named->GetString();
}

std::optional<std::string> Beside::model_type() const {
  const rapidjson::Document model = object_at("config.json");
  const Value* named = member(model, "model_type");
  if (named == nullptr || !named->IsString()) return std::nullopt;
  return named->GetString();
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
  const Value* value = member(config_, key);
  return value != nullptr && value->IsBool() ? value->GetBool() : fallback;
}

std::optional<int64_t> Beside::count(const char* key) const {
  const Value* value = member(config_, key);
  if (value == nullptr || !value->IsInt64()) return std::nullopt;
  return value->GetInt64();
}

std::string Beside::token(const char* role, const char* fallback) const {
  const Value* value = member(config_, role);
  if (value != nullptr && value->IsObject()) value = member(*value, "content");
  return value != nullptr && value->IsString() ? value->GetString() : fallback;
}

std::map<std::string, AddedBeside> Beside::added() const {
  std::map<std::string, AddedBeside> out;
  const rapidjson::Document apart = object_at("added_tokens.json");
  for (const auto& item : apart.GetObject()) {
    if (item.value.IsInt64()) out[item.name.GetString()] = {.id = item.value.GetInt64()};
  }
  const Value* list = member(config_, "added_tokens_decoder");
  if (list == nullptr || !list->IsObject()) return out;
  for (const auto& item : list->GetObject()) {
    const Value* content = item.value.IsObject() ? member(item.value, "content") : nullptr;
    if (content == nullptr || !content->IsString()) continue;
    AddedBeside& token = out[content->GetString()];
    token.id = std::strtoll(item.name.GetString(), nullptr, 10);
    for (size_t i = 0; i < kAddedFlags.size(); ++i) {
      const Value* value = member(item.value, kAddedFlags.at(i));
      if (value != nullptr && value->IsBool()) token.flags.at(i) = value->GetBool();
    }
  }
  return out;
}

rapidjson::Document Beside::object_at(const char* name) const {
  const std::string file = join_path(parent_directory(path_), name);
  if (files_.exists(file)) return read_json_object(files_, file, kLargestVocabulary);
  rapidjson::Document none;
  none.SetObject();
  return none;
}

const Value* Beside::member(const Value& object, const char* key) {
  const auto found = object.FindMember(key);
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
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
