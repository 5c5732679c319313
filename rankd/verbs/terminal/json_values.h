// What several verbs put into the JSON that they print.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/reader/value.h"

namespace ds {

inline Value strings_value(std::span<const std::string> texts) {
  std::vector<Value> items;
  for (const std::string& text : texts) items.push_back(Value::string(text));
  return Value::list(std::move(items));
}

}  // namespace ds
