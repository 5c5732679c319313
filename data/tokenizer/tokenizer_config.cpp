// tokenizer_config.json and special_tokens_map.json of Hugging Face, or else the tokenizer itself:
// which tokens begin and end a document, and which one pads.
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {
namespace {

constexpr int64_t kLargestConfig = int64_t{1} << 26;

// The token that a file names for a role; nothing where there is no such file.
std::optional<std::string> token_in(FileSystem& file_system, const std::string& path,
                                    const std::string& role) {
  if (!file_system.exists(path)) return std::nullopt;
  const rapidjson::Document document = read_json_object(file_system, path, kLargestConfig);
  const rapidjson::Value* token = last_member(document, role);
  if (token == nullptr) return std::nullopt;
  // {"content": "</s>", "lstrip": false, ...}
  if (token->IsObject()) token = last_member(*token, "content");
  if (token == nullptr || !token->IsString())
    throw DataError(fmt::format("{}: {} is no token", path, role));
  return std::string(token->GetString(), token->GetStringLength());
}

}  // namespace

std::optional<std::string> eos_token(FileSystem& file_system, const std::string& name_or_path) {
  return token_of_role(file_system, name_or_path, "eos_token");
}

std::optional<std::string> token_of_role(FileSystem& file_system, const std::string& name_or_path,
                                         const std::string& role) {
  if (name_or_path == "byte") return std::nullopt;
  const std::string folder = tokenizer_folder(file_system, name_or_path);
  for (const char* const file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (auto token = token_in(file_system, join_path(folder, file), role)) return token;
  }
  const std::optional<std::string> inside = tokenizer_file_in(file_system, name_or_path);
  return token_of_form(file_system, inside.value_or(name_or_path), role);
}

}  // namespace ds
