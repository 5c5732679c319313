// What a document has at the path of a key, "optimizer.params.lr" (pure).
#pragma once

#include <algorithm>
#include <string_view>

#include "config/reader/value.h"

namespace ds {

// Null where there is none.
inline const Value* value_at(const Value& document, std::string_view path) {
  const Value* value = &document;
  while (value != nullptr && !path.empty()) {
    const size_t end = std::min(path.find('.'), path.size());
    value = value->find(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return value;
}

}  // namespace ds
