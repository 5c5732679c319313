// Members of JSON that others wrote, for a page (pure): what is not there, or of another type than
// is meant, is absent.
#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <string>
#include <string_view>

namespace ds {

using Json = rapidjson::Value;

// Parses a JSON object. Throws DataError with the name for any other text.
rapidjson::Document parsed_object(std::string_view text, std::string_view name);

const Json* member(const Json& object, const char* name);  // null: absent
std::optional<double> number_in(const Json& object, const char* name);
std::string text_in(const Json& object, const char* name);

}  // namespace ds
