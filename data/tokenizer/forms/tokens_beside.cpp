#include "data/tokenizer/forms/tokens_beside.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "data/tokenizer/forms/beside.h"

namespace ds {
namespace {

using rapidjson::Value;
using Flags = decltype(AddedBeside::flags);

// With what flags mean that are not said: a token that is special is looked for as it stands.
Flags whole(Flags flags) {
  const bool special = flags[0].value_or(false);
  flags[0] = special;
  flags[1] = flags[1].value_or(!special);
  for (size_t i = 2; i < flags.size(); ++i) flags.at(i) = flags.at(i).value_or(false);
  return flags;
}

// The ids of a model, by text and by id. A file that has them otherwise is refused by its reader.
struct ModelIds {
  std::unordered_map<std::string, int64_t> by_text;
  std::unordered_map<int64_t, std::string> by_id;

  void add(const Value& text, int64_t id) {
    by_text[string_of(text)] = id;
    by_id[id] = string_of(text);
  }
  explicit ModelIds(const Value& document) {
    const Value* const model = last_member(document, "model");
    const Value* const vocabulary = model != nullptr ? last_member(*model, "vocab") : nullptr;
    if (vocabulary != nullptr && vocabulary->IsObject()) {
      for (const auto& [text, id] : vocabulary->GetObject()) {
        if (id.IsInt64()) add(text, id.GetInt64());
      }
    } else if (vocabulary != nullptr && vocabulary->IsArray()) {  // [["text", score], ...]
      for (int64_t id = 0; const Value& piece : vocabulary->GetArray()) {
        if (piece.IsArray() && !piece.Empty() && piece[0].IsString()) add(piece[0], id);
        ++id;
      }
    }
  }
};

class Joined {
 public:
  Joined(const std::string& path, const Value& document) : path_(path), document_(document) {
    const Value* const list = last_member(document, "added_tokens");
    if (list == nullptr || !list->IsArray()) return;
    for (const Value& token : list->GetArray()) {
      const Value* const id = last_member(token, "id");
      const Value* const content = last_member(token, "content");
      is_sane_ =
          is_sane_ && id != nullptr && id->IsInt64() && content != nullptr && content->IsString();
      if (!is_sane_) return;
      AddedBeside& added = tokens_[string_of(*content)];
      added.id = id->GetInt64();
      for (size_t i = 0; i < kAddedFlags.size(); ++i) {
        const Value* const flag = last_member(token, kAddedFlags.at(i));
        if (flag != nullptr && flag->IsBool()) added.flags.at(i) = flag->GetBool();
      }
    }
  }

  void add_listed(const std::map<std::string, AddedBeside>& listed) {
    for (const auto& [token, how] : listed) {
      const auto known = tokens_.find(token);
      if (known == tokens_.end()) {
        add_new(token, how);
      } else if (std::ranges::any_of(how.flags,
                                     [](const auto& flag) { return flag.has_value(); }) &&
                 whole(how.flags) != whole(known->second.flags)) {
        known->second.flags = whole(how.flags);
        is_changed_ = true;
      }
    }
  }
  void add_in_role(const std::string& token) {
    if (token.empty() || tokens_.contains(token)) return;
    const auto found = ids().by_text.find(token);
    if (found == ids().by_text.end()) {
      not_looked_for_.insert(token);
      return;
    }
    tokens_[token] = {.id = found->second, .flags = {true}};
    is_changed_ = true;
  }

  // The members that say it; empty where nothing is new.
  std::string members() const {
    if (!is_sane_ || (!is_changed_ && not_looked_for_.empty())) return "";
    JsonText json;
    json.out().StartObject();
    write_added_tokens(json, tokens_);
    json.out().Key("tokens_not_looked_for");
    json.out().StartArray();
    for (const std::string& token : not_looked_for_) json.string(token);
    json.out().EndArray();
    return json.finish().substr(1);
  }

 private:
  const ModelIds& ids() {
    if (!ids_) ids_.emplace(document_);
    return *ids_;
  }
  void add_new(const std::string& token, const AddedBeside& how) {
    AddedBeside added{.id = how.id, .flags = whole(how.flags)};
    if (const auto found = ids().by_text.find(token); found != ids().by_text.end())
      added.id = found->second;
    const auto refuse = [&](const std::string& other) {
      throw DataError(
          fmt::format("{}: id {} is \"{}\" there, and \"{}\" in the files beside it (added_tokens_"
                      "decoder of tokenizer_config.json, or added_tokens.json)",
                      path_, added.id, other, token));
    };
    const auto other = ids().by_id.find(added.id);
    if (other != ids().by_id.end() && other->second != token) refuse(other->second);
    if (taken_.empty()) {
      for (const auto& [text, known] : tokens_) taken_.emplace(known.id, text);
    }
    const auto [taken, is_free] = taken_.emplace(added.id, token);
    if (!is_free && taken->second != token) refuse(taken->second);
    tokens_[token] = added;
    is_changed_ = true;
  }

  const std::string& path_;
  const Value& document_;
  std::map<std::string, AddedBeside> tokens_;
  std::unordered_map<int64_t, std::string> taken_;  // by tokens_
  std::set<std::string> not_looked_for_;
  std::optional<ModelIds> ids_;
  bool is_sane_ = true, is_changed_ = false;
};

}  // namespace

std::string with_tokens_beside(FileSystem& files, const std::string& path, std::string text) {
  const Beside beside(files, path);
  const std::map<std::string, AddedBeside> listed = beside.added();
  const std::vector<std::string> in_roles = beside.tokens_in_roles();
  if (listed.empty() && in_roles.empty()) return text;
  const rapidjson::Document document = parse_json_object(text, path);
  Joined joined(path, document);
  joined.add_listed(listed);
  for (const std::string& token : in_roles) joined.add_in_role(token);
  const std::string members = joined.members();
  if (members.empty()) return text;
  // The last value counts of a key that stands twice.
  const size_t end = text.rfind('}');
  text.replace(end, text.size() - end, (document.ObjectEmpty() ? "" : ",") + members);
  return text;
}

}  // namespace ds
