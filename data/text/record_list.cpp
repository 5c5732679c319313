#include "data/text/record_list.h"

#include <rapidjson/document.h>

namespace ds {

std::optional<std::vector<RecordItem>> record_list(const std::string& text) {
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
  rapidjson::Document list;
  list.Parse<kFlags>(text.data(), text.size());
  if (list.HasParseError() || !list.IsArray()) return std::nullopt;
  std::vector<RecordItem> items;
  for (const rapidjson::Value& value : list.GetArray()) {
    if (value.IsString()) {
      items.push_back({.word = {value.GetString(), value.GetStringLength()}});
    } else if (value.IsNumber()) {
      items.push_back({.number = value.GetDouble()});
    } else if (value.IsBool()) {
      items.push_back({.number = value.GetBool() ? 1 : 0});
    } else {
      return std::nullopt;
    }
  }
  return items;
}

}  // namespace ds
