#include "data/chat/run/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

struct Parameters {
  std::vector<std::string_view> names;
  size_t required = 0;
  bool keywords = true;
};

Parameters parameters_of(std::string_view signature) {
  Parameters out;
  if (signature.starts_with('/')) out.keywords = false, signature.remove_prefix(1);
  while (!signature.empty()) {
    std::string_view name = signature.substr(0, signature.find(','));
    signature.remove_prefix(std::min(signature.size(), name.size() + 1));
    if (name.ends_with('=')) {
      name.remove_suffix(1);
    } else {
      ++out.required;
    }
    out.names.push_back(name);
  }
  return out;
}

Arguments bound(const Native& native, Arguments arguments) {
  const Parameters parameters = parameters_of(native.signature);
  const size_t given = arguments.positional.size();
  if (given > parameters.names.size()) {
    throw Fault(fmt::format("{} takes at most {} arguments, and got {}", native.name,
                            parameters.names.size(), given));
  }
  arguments.positional.resize(parameters.names.size(), Value::absent());
  for (auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(parameters.names, name);
    const auto index = static_cast<size_t>(found - parameters.names.begin());
    if (!parameters.keywords || found == parameters.names.end() || arguments.has(index))
      throw Fault(fmt::format("{} takes no argument '{}' here", native.name, name));
    arguments.positional[index] = std::move(value);
  }
  arguments.named.clear();
  for (size_t i = 0; i < parameters.required; ++i) {
    if (!arguments.has(i))
      throw Fault(fmt::format("{} misses its argument '{}'", native.name, parameters.names[i]));
  }
  return arguments;
}

// Steps for values that come all at once.
void spend_on_items(Context& context, size_t count) { context.budget().spend(1 + count / 8); }

Values characters_as_values(Context& context, std::string_view text) {
  spend_on_items(context, text.size());
  Values out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = first_character(text.substr(at)).length;
    out.push_back(context.text(text.substr(at, length)));
    at += length;
  }
  return out;
}

Values items_of_view(Context& context, const View& view) {
  spend_on_items(context, view.dict->items.size());
  Values out;
  for (const auto& [key, value] : view.dict->items) {
    switch (view.part) {
      case View::Part::kKeys:
        out.push_back(key);
        break;
      case View::Part::kValues:
        out.push_back(value);
        break;
      case View::Part::kItems:
        out.push_back(context.tuple({key, value}));
        break;
    }
  }
  return out;
}

Values take_all(Context& context, Iterator& iterator) {
  spend_on_items(context, iterator.items.size() - iterator.next);
  const auto begin = iterator.items.begin() + static_cast<ptrdiff_t>(iterator.next);
  iterator.next = iterator.items.size();
  return {begin, iterator.items.end()};
}

}  // namespace

const Value* Arguments::find(std::string_view name) const {
  const auto found = std::ranges::find_if(named, [&](const auto& n) { return n.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

Value call_native(Context& context, const Native& native, const Value& self, Arguments arguments) {
  if (native.run == nullptr)
    throw Fault(fmt::format("the method '{}' is not supported", native.name));
  if (native.signature != "...") arguments = bound(native, std::move(arguments));
  // It may read every text that it is given, letter by letter.
  size_t bytes = self.is(Kind::kText) ? self.as_text().size() : 0;
  for (const Value& argument : arguments.positional) {
    if (argument.is(Kind::kText)) bytes += argument.as_text().size();
  }
  context.budget().spend(bytes / 64);
  return native.run(context, self, arguments);
}

Scope::Scope(std::shared_ptr<Scope> outer, Budget* budget)
    : parent(std::move(outer)), charge(budget, 2 * sizeof(Scope)) {}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    const auto found =
        std::ranges::find_if(scope->names, [&](const auto& known) { return known.first == name; });
    if (found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  const auto found =
      std::ranges::find_if(names, [&](const auto& known) { return known.first == name; });
  if (found != names.end()) {
    found->second = std::move(value);
  } else {
    names.emplace_back(name, std::move(value));
  }
}

void refuse_type(std::string_view operation, const Value& value) {
  if (value.is(Kind::kUndefined)) throw Fault(value.undefined_message());
  throw Fault(fmt::format("{}: not possible with a '{}'", operation, value.type_name()));
}

Values items_of(Context& context, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      spend_on_items(context, 0);
      return {};
    case Kind::kText:
      return characters_as_values(context, value.as_text());
    case Kind::kList:
    case Kind::kTuple:
      spend_on_items(context, value.items().size());
      return value.items();
    case Kind::kDict:
      return items_of_view(context, {value.shared<const Dict>(), View::Part::kKeys});
    case Kind::kView:
      return items_of_view(context, value.as_view());
    case Kind::kIterator:
      return take_all(context, *value.shared<Iterator>());
    case Kind::kRange: {
      const Range& range = value.as_range();
      spend_on_items(context, static_cast<size_t>(range.size()));
      Values out;
      for (int64_t i = 0; i < range.size(); ++i) out.emplace_back(range.at(i));
      return out;
    }
    default:
      refuse_type("iteration", value);
  }
}

int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kText:
      return static_cast<int64_t>(length_of(std::string_view(value.as_text())));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as_dict().items.size());
    case Kind::kView:
      return static_cast<int64_t>(value.as_view().dict->items.size());
    case Kind::kRange:
      return value.as_range().size();
    case Kind::kLoop:
      return value.shared<Loop>()->count();
    default:
      refuse_type("length", value);
  }
}

const std::string& text_of(std::string_view operation, const Value& value) {
  if (!value.is(Kind::kText)) refuse_type(operation, value);
  return value.as_text();
}

int64_t int_of(std::string_view operation, const Value& value) {
  if (!value.is_integer()) refuse_type(operation, value);
  return value.as_int();
}

size_t size_of(std::string_view operation, const Value& value) {
  constexpr int64_t kLargest = int64_t{1} << 26;
  const int64_t size = int_of(operation, value);
  if (size > kLargest) throw Fault(fmt::format("{}: {} is too large", operation, size));
  return static_cast<size_t>(std::max<int64_t>(size, 0));
}

}  // namespace ds::chat
