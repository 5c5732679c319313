// JSON of others that is handed on without being looked into (pure): the values that follow each
// other in a text, and texts as JSON strings. Strict JSON (RFC 8259).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct JsonValueText {
  std::string_view text;
  int64_t line = 1;  // where it begins
};

// The values between white space: one, also over several lines, or one after the other, as in JSON
// lines. DataError "source:line: ..." for what is no JSON or no UTF-8. Depth costs no stack.
std::vector<JsonValueText> json_values(std::string_view text, const std::string& source);

// The text in quotes, escaped. DataError for what is no UTF-8.
std::string json_quoted(std::string_view text);

}  // namespace ds
