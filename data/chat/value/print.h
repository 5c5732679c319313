// Values as texts: Python's str and repr, and JSON as Python's json.dumps writes it.
#pragma once

#include "data/chat/value/value.h"

namespace ds::chat {

// Fault where Python would print an address.
std::string to_str(Budget& budget, const Value& value);
std::string to_repr(Budget& budget, const Value& value);
std::string repr_of_text(std::string_view text);
std::string repr_of_float(double value);

struct JsonStyle {
  bool ascii = false;
  bool sorted = false;
  std::optional<std::string> indent;  // of one level; none: everything on one line
  std::string between = ", ";
  std::string behind_key = ": ";
};
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace ds::chat
