#include "data/tokenizer/forms/json_object.h"

#include <rapidjson/error/en.h>

namespace ds {

rapidjson::Document read_json_object(FileSystem& files, const std::string& path, int64_t largest) {
  const std::string text = files.read_text(path, largest);
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
      text.data(), text.size());
  if (document.HasParseError() || !document.IsObject()) {
    throw DataError(fmt::format("{}: no JSON object: {} at byte {}", path,
                                rapidjson::GetParseError_En(document.GetParseError()),
                                document.GetErrorOffset()));
  }
  return document;
}

}  // namespace ds
