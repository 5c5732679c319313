#include "data/chat/value/value_objects.h"

namespace ds::chat {

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return shared<const Sequence>()->depth;
    case Kind::kDict:
      return as_dict().depth;
    case Kind::kView:
      return as_view().dict->depth + 1;
    case Kind::kIterator:
      return shared<Iterator>()->depth;
    case Kind::kLoop:
      return shared<Loop>()->depth;
    case Kind::kFunction:
      return shared<const Function>()->self.depth() + 1;
    default:
      return 0;
  }
}

Value make_function(Budget* budget, const Native* native, Value self) {
  constexpr size_t kBytes = sizeof(Function) + 32;
  return std::shared_ptr<const Function>(new Function{native, std::move(self), {budget, kBytes}});
}

std::optional<Value> Loop::drawn() {
  if (drawing_) throw Fault("the condition of a loop goes through the loop itself");
  drawing_ = true;  // an error below ends the rendering, so nothing draws after it
  std::optional<Value> item = draw();
  drawing_ = false;
  return item;
}

bool Loop::advance() {
  std::optional<Value> item = next ? std::exchange(next, std::nullopt) : drawn();
  if (!item) return false;
  ++index0;
  previous = std::move(current);
  current = std::move(item);
  return true;
}

const std::optional<Value>& Loop::peek() {
  if (!next) next = drawn();
  return next;
}

int64_t Loop::count() {
  if (length) return *length;
  Values left;
  if (next) left.push_back(*next);
  while (auto item = drawn()) left.push_back(std::move(*item));
  length = index0 + 1 + static_cast<int64_t>(left.size());
  if (next) left.erase(left.begin());
  draw = [items = std::move(left), at = size_t{0}]() mutable -> std::optional<Value> {
    return at < items.size() ? std::optional(items[at++]) : std::nullopt;
  };
  return *length;
}

}  // namespace ds::chat
