// Numbers and texts as templates write them (pure).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/chat/value/value.h"

namespace ds::chat {

struct Number {
  Value value;
  size_t length = 0;
};
// The number that a text begins with. Behind a dot there are no floats: x.0.1 are two indices.
std::optional<Number> number_at(std::string_view text, bool behind_dot);

// What stands between quotes, with its escapes carried out. Fault for an escape that is none.
std::string unescaped_text(std::string_view inside);

// A float as Python's float() reads it; nothing where it reads none.
std::optional<double> parsed_float(std::string_view text);
// The same of int(). Fault beyond 64 bits.
std::optional<int64_t> parsed_int(std::string_view text, int base);

}  // namespace ds::chat
