#include "data/chat/value/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text/utf8.h"

namespace ds::chat {
namespace {

constexpr size_t kLongestMessage = 200;

// What a value takes besides its text: the value itself and the block that holds its data.
constexpr size_t kTextBytes = 96;
constexpr size_t kSequenceBytes = 96;
constexpr size_t kItemBytes = sizeof(Value);
constexpr size_t kEntryBytes = 2 * sizeof(Value) + 64;

// A deeper value would be gone through by deep recursion.
constexpr int kDeepestVariable = 512;

int depth_over(Budget* budget, const Values& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  if (budget != nullptr) budget->check_depth(deepest + 1);
  if (deepest >= kDeepestVariable) throw Fault("a variable is nested too deeply");
  return deepest + 1;
}

Value new_text(Budget* budget, std::string bytes, bool markup) {
  if (budget != nullptr) budget->spend(bytes.size() / 256);
  const size_t size = bytes.size() + kTextBytes;
  return std::shared_ptr<const Text>(new Text{std::move(bytes), markup, {budget, size}});
}

}  // namespace

int64_t Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value Value::undefined(Budget* budget, std::string message) {
  if (message.size() > kLongestMessage) {  // a name in it may be any text
    message.resize(kLongestMessage);
    message = as_utf8(message) + "...";
  }
  const size_t size = message.size() + kTextBytes;
  return Value(Data(
      Undefined{std::shared_ptr<const Text>(new Text{std::move(message), false, {budget, size}})}));
}

Kind Value::kind() const {
  constexpr std::array kKinds{Kind::kAbsent,    Kind::kUndefined, Kind::kNone,  Kind::kBool,
                              Kind::kInt,       Kind::kFloat,     Kind::kText,  Kind::kList,
                              Kind::kDict,      Kind::kView,      Kind::kRange, Kind::kIterator,
                              Kind::kNamespace, Kind::kLoop,      Kind::kMacro, Kind::kFunction};
  static_assert(kKinds.size() == std::variant_size_v<Data>);
  const Kind kind = kKinds[data_.index()];
  const bool tuple = kind == Kind::kList && shared<const Sequence>()->form != Sequence::Form::kList;
  return tuple ? Kind::kTuple : kind;
}

const std::string& Value::undefined_message() const {
  return std::get<Undefined>(data_).message->bytes;
}
const std::string& Value::as_text() const { return shared<const Text>()->bytes; }
bool Value::is_markup() const { return is(Kind::kText) && shared<const Text>()->markup; }
const Values& Value::items() const { return shared<const Sequence>()->items; }

const void* Value::address() const {
  return std::visit(
      [](const auto& data) -> const void* {
        if constexpr (requires { data.get(); }) {
          return data.get();
        } else {
          return nullptr;
        }
      },
      data_);
}

bool Value::is_true() const {
  switch (kind()) {
    case Kind::kAbsent:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return as_bool();
    case Kind::kInt:
      return as_int() != 0;
    case Kind::kFloat:
      return as_double() != 0;
    case Kind::kText:
      return !as_text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !items().empty();
    case Kind::kDict:
      return !as_dict().items.empty();
    case Kind::kView:
      return !as_view().dict->items.empty();
    case Kind::kRange:
      return as_range().size() != 0;
    default:
      return true;
  }
}

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::kAbsent:
      return "nothing";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool object";
    case Kind::kInt:
      return "int object";
    case Kind::kFloat:
      return "float object";
    case Kind::kText:
      return "str object";
    case Kind::kList:
      return "list object";
    case Kind::kTuple:
      return "tuple object";
    case Kind::kDict:
      return "dict object";
    case Kind::kView:
      return "dict view object";
    case Kind::kIterator:
      return "generator object";
    case Kind::kRange:
      return "range object";
    case Kind::kNamespace:
      return "namespace object";
    case Kind::kLoop:
      return "loop object";
    case Kind::kMacro:
      return "macro object";
    case Kind::kFunction:
      return "function object";
  }
  return "";
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &items[found->second].second;
}

Value* Namespace::find(std::string_view name) {
  const auto found = std::ranges::find_if(names, [&](const auto& n) { return n.first == name; });
  return found == names.end() ? nullptr : &found->second;
}

Value make_text(Budget* budget, std::string bytes) {
  return new_text(budget, std::move(bytes), false);
}
Value make_markup(Budget* budget, std::string bytes) {
  return new_text(budget, std::move(bytes), true);
}

Value make_sequence(Budget* budget, Values items, Sequence::Form form) {
  const int depth = depth_over(budget, items);
  const size_t size = kSequenceBytes + items.size() * kItemBytes;
  return std::shared_ptr<const Sequence>(
      new Sequence{std::move(items), form, depth, {budget, size}});
}

Value make_tuple(Budget* budget, Values items) {
  return make_sequence(budget, std::move(items), Sequence::Form::kTuple);
}

Value make_iterator(Budget* budget, Values items) {
  const int depth = depth_over(budget, items);
  const size_t size = kSequenceBytes + items.size() * kItemBytes;
  return std::shared_ptr<Iterator>(new Iterator{std::move(items), 0, depth, {budget, size}});
}

void check_hashable(const Value& key) {
  if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is(Kind::kNamespace))
    throw Fault(fmt::format("unhashable type: '{}'", key.type_name()));
  if (key.is(Kind::kTuple)) std::ranges::for_each(key.items(), check_hashable);
}

void DictMaker::set(Value key, Value value) {
  check_hashable(key);
  if (budget_ != nullptr) budget_->spend((dict_->items.size() - dict_->index.size()) / 64);
  if (const Value* known = dict_->find(key)) {
    *const_cast<Value*>(known) = std::move(value);
    return;
  }
  dict_->charge.add(kEntryBytes);
  dict_->items.emplace_back(std::move(key), std::move(value));
  const Value& kept = dict_->items.back().first;
  if (kept.is(Kind::kText)) dict_->index.emplace(kept.as_text(), dict_->items.size() - 1);
}

Value DictMaker::finish() {
  int deepest = 0;
  for (const auto& [key, value] : dict_->items)
    deepest = std::max({deepest, key.depth(), value.depth()});
  if (budget_ != nullptr) budget_->check_depth(deepest + 1);
  if (deepest >= kDeepestVariable) throw Fault("a variable is nested too deeply");
  dict_->depth = deepest + 1;
  return std::shared_ptr<const Dict>(std::move(dict_));
}

}  // namespace ds::chat
