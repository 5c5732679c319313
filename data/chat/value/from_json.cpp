#include "data/chat/value/from_json.h"

#include <fmt/format.h>

namespace ds::chat {
namespace {

constexpr int kDeepestJson = 256;

Value converted(const rapidjson::Value& json, int depth) {
  if (depth > kDeepestJson)
    throw Fault(fmt::format("JSON nested deeper than {} levels", kDeepestJson));
  if (json.IsNull()) return Value();
  if (json.IsBool()) return Value(json.GetBool());
  if (json.IsString()) return make_text(nullptr, {json.GetString(), json.GetStringLength()});
  if (json.IsInt64()) return Value(int64_t{json.GetInt64()});
  if (json.IsUint64())
    throw Fault(fmt::format("the integer {} has more than 63 bits", json.GetUint64()));
  if (json.IsNumber()) return Value(json.GetDouble());
  if (json.IsArray()) {
    Values items;
    for (const auto& item : json.GetArray()) items.push_back(converted(item, depth + 1));
    return make_sequence(nullptr, std::move(items));
  }
  DictMaker dict(nullptr);
  for (const auto& [key, value] : json.GetObject())
    dict.set(make_text(nullptr, {key.GetString(), key.GetStringLength()}),
             converted(value, depth + 1));
  return dict.finish();
}

}  // namespace

Value from_json(const rapidjson::Value& json) { return converted(json, 0); }

}  // namespace ds::chat
