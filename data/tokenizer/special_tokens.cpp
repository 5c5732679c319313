#include "data/tokenizer/special_tokens.h"

#include "core/status/error.h"
#include "data/tokenizer/forms/forms.h"

namespace ds {

std::map<std::string, int32_t> special_tokens(FileSystem& files, const std::string& name_or_path) {
  std::map<std::string, int32_t> found;
  if (name_or_path == "byte") return found;
  const std::string path = tokenizer_file_in(files, name_or_path).value_or(name_or_path);
  const bool is_tokenizer =
      path.ends_with(".json") || path.ends_with(tokenizer_file_name(path)) || stands_alone(path);
  if (!is_tokenizer || !files.exists(path)) return found;
  const rapidjson::Document document = tokenizer_document(files, path);
  const auto list = document.FindMember("added_tokens");
  if (list == document.MemberEnd() || list->value.IsNull()) return found;
  const auto refuse = [&] {
    return DataError(path + ": added_tokens is no list of objects with id, content and special");
  };
  if (!list->value.IsArray()) throw refuse();
  for (const rapidjson::Value& token : list->value.GetArray()) {
    if (!token.IsObject()) throw refuse();
    const auto id = token.FindMember("id"), content = token.FindMember("content");
    const auto special = token.FindMember("special"), none = token.MemberEnd();
    if (id == none || !id->value.IsInt() || content == none || !content->value.IsString()) {
      throw refuse();
    }
    if (special == none || !special->value.IsBool() || !special->value.GetBool()) continue;
    found.emplace(std::string(content->value.GetString(), content->value.GetStringLength()),
                  id->value.GetInt());
  }
  return found;
}

}  // namespace ds
