#include "launcher/report/page/json_read.h"

#include <fmt/format.h>

#include "core/status/error.h"

namespace ds {

rapidjson::Document parsed_object(std::string_view text, std::string_view name) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());  // depth costs no stack
  if (document.HasParseError() || !document.IsObject()) {
    throw DataError(fmt::format("{}: this is no JSON object", name));
  }
  return document;
}

const Json* member(const Json& object, const char* name) {
  if (!object.IsObject()) return nullptr;
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

std::optional<double> number_in(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  return value != nullptr && value->IsNumber() ? std::optional(value->GetDouble()) : std::nullopt;
}

std::string text_in(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  return value != nullptr && value->IsString()
             ? std::string(value->GetString(), value->GetStringLength())
             : "";
}

}  // namespace ds
