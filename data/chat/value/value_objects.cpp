#include "data/chat/value/value_objects.h"

namespace ds::chat {

bool Loop::advance() {
  std::optional<Value> drawn = next ? std::exchange(next, std::nullopt) : draw();
  if (!drawn) return false;
  ++index0;
  previous = std::move(current);
  current = std::move(drawn);
  return true;
}

const std::optional<Value>& Loop::peek() {
  if (!next) next = draw();
  return next;
}

int64_t Loop::count() {
  if (length) return *length;
  Values left;
  if (next) left.push_back(*next);
  while (auto drawn = draw()) left.push_back(std::move(*drawn));
  length = index0 + 1 + static_cast<int64_t>(left.size());
  if (next) left.erase(left.begin());
  draw = [items = std::move(left), at = size_t{0}]() mutable -> std::optional<Value> {
    return at < items.size() ? std::optional(items[at++]) : std::nullopt;
  };
  return *length;
}

}  // namespace ds::chat
