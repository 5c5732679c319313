#include "data/tokenizer/forms/json_object.h"

#include <rapidjson/error/en.h>

namespace ds {

rapidjson::Document parse_json_object(const std::string& text, const std::string& path) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
      text.data(), text.size());
  if (document.HasParseError()) {
    throw DataError(fmt::format("{}: not valid JSON at byte {}: {}", path,
                                document.GetErrorOffset(),
                                rapidjson::GetParseError_En(document.GetParseError())));
  }
  if (!document.IsObject()) throw DataError(path + ": not a JSON object");
  return document;
}

rapidjson::Document read_json_object(FileSystem& files, const std::string& path, int64_t largest) {
  return parse_json_object(files.read_text(path, largest), path);
}

std::string string_of(const rapidjson::Value& text) {
  return {text.GetString(), text.GetStringLength()};
}

const rapidjson::Value* last_member(const rapidjson::Value& object, std::string_view key) {
  if (!object.IsObject()) return nullptr;
  const rapidjson::Value* found = nullptr;
  for (const auto& [name, value] : object.GetObject()) {
    if (std::string_view(name.GetString(), name.GetStringLength()) == key) found = &value;
  }
  return found == nullptr || found->IsNull() ? nullptr : found;
}

}  // namespace ds
