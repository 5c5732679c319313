// Texts that are a line each: in a field of the user's choice of JSON lines, one object a line, or
// the line of a plain text. Every line counts or is an error with its number; only empty lines are
// passed over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/text/byte_stream.h"

namespace ds {

inline constexpr size_t kLongestLine = size_t{256} << 20;

// Calls `on_text` with the field of each line, in order, and its line number from 1. DataError
// "path:line: ..." for a line that is no object, lacks the field, or is longer than kLongestLine.
void for_each_json_text(ByteStream& stream, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text, int64_t line)>& on_text);

// Calls `on_text` with each line of a plain text that is not blank, without its line end. DataError
// for what is no text, and for a line longer than kLongestLine.
void for_each_plain_line(ByteStream& stream, const std::string& path,
                         const std::function<void(std::string_view text, int64_t line)>& on_text);

// The first of those JSON texts, read without going further; "" where there is none.
std::string first_json_text(ByteStream& stream, const std::string& path, const std::string& field);

}  // namespace ds
