#include "data/chat/run/filters.h"

#include <algorithm>

#include "data/chat/run/sequence_filters.h"
#include "data/chat/run/text_filters.h"

namespace ds::chat {

const Native* find_filter(std::string_view name) {
  for (const std::span<const Native> filters : {text_filters(), sequence_filters()}) {
    const auto found = std::ranges::lower_bound(filters, name, {}, &Native::name);
    if (found != filters.end() && found->name == name) return &*found;
  }
  return nullptr;
}

}  // namespace ds::chat
