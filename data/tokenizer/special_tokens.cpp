#include "data/tokenizer/special_tokens.h"

#include "core/status/error.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {

std::map<std::string, int32_t> special_tokens(FileSystem& files, const std::string& name_or_path) {
  std::map<std::string, int32_t> found;
  if (name_or_path == "byte") return found;
  const std::string path = tokenizer_file_in(files, name_or_path).value_or(name_or_path);
  const bool is_tokenizer =
      path.ends_with(".json") || path.ends_with(tokenizer_file_name(path)) || stands_alone(path);
  if (!is_tokenizer || !files.exists(path)) return found;
  const rapidjson::Document document = tokenizer_document(files, path);
  const rapidjson::Value* const list = last_member(document, "added_tokens");
  if (list == nullptr) return found;
  const auto refuse = [&] {
    return DataError(path + ": added_tokens is no list of objects with id, content and special");
  };
  if (!list->IsArray()) throw refuse();
  for (const rapidjson::Value& token : list->GetArray()) {
    const rapidjson::Value* const id = last_member(token, "id");
    const rapidjson::Value* const content = last_member(token, "content");
    const rapidjson::Value* const special = last_member(token, "special");
    if (id == nullptr || !id->IsInt() || content == nullptr || !content->IsString()) throw refuse();
    if (special == nullptr || !special->IsBool() || !special->GetBool()) continue;
    found.emplace(std::string(content->GetString(), content->GetStringLength()), id->GetInt());
  }
  return found;
}

}  // namespace ds
