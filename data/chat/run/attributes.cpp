#include "data/chat/run/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/chat/run/methods.h"
#include "data/chat/syntax/literals.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

Value no_attribute(Context& context, const Value& value, std::string_view name) {
  return context.undefined(fmt::format("'{}' has no attribute '{}'", value.type_name(), name));
}

Value attribute_of_loop(Context& context, const Value& value, std::string_view name) {
  Loop& loop = *value.shared<Loop>();
  if (name == "index") return Value(loop.index0 + 1);
  if (name == "index0") return Value(loop.index0);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(!loop.peek());
  if (name == "length") return Value(loop.count());
  if (name == "revindex") return Value(loop.count() - loop.index0);
  if (name == "revindex0") return Value(loop.count() - loop.index0 - 1);
  if (name == "depth") return Value(int64_t{loop.depth0} + 1);
  if (name == "depth0") return Value(int64_t{loop.depth0});
  if (name == "previtem") {
    return loop.previous ? *loop.previous : context.undefined("there is no previous item");
  }
  if (name == "nextitem")
    return loop.peek() ? *loop.peek() : context.undefined("there is no next item");
  return Value::absent();
}

Value attribute_of_number(const Value& value, std::string_view name) {
  if (name == "real") return value.is_integer() ? Value(value.as_int()) : value;
  if (name == "imag") return value.is_integer() ? Value(int64_t{0}) : Value(0.0);
  if (!value.is_integer()) return Value::absent();
  if (name == "numerator") return Value(value.as_int());
  return name == "denominator" ? Value(int64_t{1}) : Value::absent();
}

Value attribute_of_range(const Range& range, std::string_view name) {
  if (name == "start") return Value(range.start);
  if (name == "stop") return Value(range.stop);
  return name == "step" ? Value(range.step) : Value::absent();
}

// What Python's getattr finds; absent: nothing.
Value python_attribute(Context& context, const Value& value, std::string_view name) {
  if (name.starts_with('_')) {
    return Value::absent();
  }
  if (const Native* method = find_method(value.kind(), name)) {
    if (method->signature == "!") {
      return context.undefined(
          fmt::format("access to attribute '{}' of '{}' is unsafe: it changes the object", name,
                      value.type_name()));
    }
    return make_function(&context.budget(), method, value);
  }
  if (value.is(Kind::kLoop)) return attribute_of_loop(context, value, name);
  if (value.is_number()) return attribute_of_number(value, name);
  if (value.is(Kind::kRange)) return attribute_of_range(value.as_range(), name);
  if (value.is(Kind::kNamespace)) {
    Namespace& space = *value.shared<Namespace>();
    context.budget().spend(space.names.size() / 64);
    const Value* found = space.find(name);
    return found != nullptr ? *found : Value::absent();
  }
  if (value.is(Kind::kMacro) && name == "name")
    return context.text(value.shared<const Macro>()->name);
  const bool group =
      value.is(Kind::kTuple) && value.shared<const Sequence>()->form == Sequence::Form::kGroup;
  if (group && name == "grouper") return value.items()[0];
  if (group && name == "list") return value.items()[1];
  return Value::absent();
}

std::optional<Value> element_of(const Values& items, const Value& key) {
  if (!key.is_integer()) return std::nullopt;
  const auto size = static_cast<int64_t>(items.size());
  const int64_t index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
  if (index < 0 || index >= size) return std::nullopt;
  return items[static_cast<size_t>(index)];
}

std::optional<Value> character_of(Context& context, const Value& value, const Value& key) {
  if (!key.is_integer()) return std::nullopt;
  const std::string_view text = value.as_text();
  context.budget().spend_on(text.size());
  int64_t index = key.as_int();
  if (index < 0) index += static_cast<int64_t>(length_of(text));
  if (index < 0) return std::nullopt;
  const size_t at = offset_of(text, static_cast<size_t>(index));
  if (at == text.size()) return std::nullopt;
  const std::string_view one = text.substr(at, first_character(text.substr(at)).length);
  return value.is_markup() ? make_markup(&context.budget(), std::string(one)) : context.text(one);
}

// What Python's value[key] finds; nothing for errors that Jinja takes for "not there".
std::optional<Value> python_item(Context& context, const Value& value, const Value& key) {
  switch (value.kind()) {
    case Kind::kUndefined:
      throw Fault(value.undefined_message());
    case Kind::kText:
      return character_of(context, value, key);
    case Kind::kList:
    case Kind::kTuple:
      return element_of(value.items(), key);
    case Kind::kDict: {
      const Dict& dict = value.as_dict();
      context.budget().spend((dict.items.size() - dict.index.size()) / 64);
      const Value* found = dict.find(key);
      return found != nullptr ? std::optional(*found) : std::nullopt;
    }
    case Kind::kRange: {
      if (!key.is_integer()) return std::nullopt;
      const Range& range = value.as_range();
      const int64_t index = key.as_int() < 0 ? key.as_int() + range.size() : key.as_int();
      if (index < 0 || index >= range.size()) return std::nullopt;
      return Value(range.at(index));
    }
    default:
      return std::nullopt;
  }
}

// The indices that a slice picks, as Python's slice.indices has them.
std::vector<size_t> picked(Context& context, int64_t size, const Value& from, const Value& to,
                           const Value& step_value) {
  const auto given = [](const Value& v) { return v.given() && !v.is(Kind::kNone); };
  const int64_t step = given(step_value) ? step_value.as_int() : 1;
  if (step == 0) throw Fault("the step of a slice is 0");
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto bound = [&](const Value& v, int64_t otherwise) {
    if (!given(v)) return otherwise;
    const int64_t at = v.as_int() < 0 ? std::max(v.as_int(), -size - 1) + size : v.as_int();
    return std::clamp(at, lowest, std::max(lowest, highest));
  };
  const int64_t begin = bound(from, step < 0 ? highest : lowest);
  const int64_t end = bound(to, step < 0 ? lowest : highest);
  std::vector<size_t> out;
  const int64_t distance = step < 0 ? begin - end : end - begin;
  const int64_t count =
      distance <= 0 ? 0
                    : (distance - 1) / std::max(step, step == INT64_MIN ? INT64_MAX : -step) + 1;
  context.budget().spend(1 + static_cast<size_t>(count) / 64);
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<size_t>(begin + i * step));
  return out;
}

}  // namespace

Value attribute_of(Context& context, const Value& value, std::string_view name) {
  if (value.is(Kind::kUndefined)) throw Fault(value.undefined_message());
  Value found = python_attribute(context, value, name);
  if (found.given()) return found;
  if (value.is(Kind::kDict)) {
    if (const Value* item = value.as_dict().find(name)) return *item;
  }
  if (name.starts_with('_')) {
    return context.undefined(
        fmt::format("access to attribute '{}' of '{}' is unsafe", name, value.type_name()));
  }
  return no_attribute(context, value, name);
}

Value item_of(Context& context, const Value& value, const Value& key) {
  if (auto found = python_item(context, value, key)) return *found;
  if (key.is(Kind::kText)) {
    Value found = python_attribute(context, value, key.as_text());
    return found.given() ? found : no_attribute(context, value, key.as_text());
  }
  const bool printable = key.is_number() || key.is(Kind::kNone);
  return context.undefined(fmt::format("{} has no element {}", value.type_name(),
                                       printable ? context.repr(key) : "of that kind"));
}

Value slice_of(Context& context, const Value& value, const Value& from, const Value& to,
               const Value& step) {
  const auto fits = [](const Value& v) {
    return !v.given() || v.is(Kind::kNone) || v.is_integer();
  };
  const bool sliced = value.is(Kind::kText) || value.is_sequence() || value.is(Kind::kRange);
  if (!sliced) refuse_type("a slice", value);
  for (const Value* bound : {&from, &to, &step}) {
    if (!fits(*bound)) refuse_type("a bound of a slice", *bound);
  }
  if (value.is(Kind::kText)) {
    context.budget().spend_on(8 * value.as_text().size());
    const std::u32string characters = characters_of(value.as_text());
    std::u32string out;
    for (const size_t i : picked(context, static_cast<int64_t>(characters.size()), from, to, step))
      out.push_back(characters[i]);
    return value.is_markup() ? make_markup(&context.budget(), text_of(out))
                             : context.text(text_of(out));
  }
  const int64_t size = length_of(value);
  if (value.is(Kind::kRange)) {
    const std::vector<size_t> indices = picked(context, size, from, to, step);
    Range out;
    if (__builtin_mul_overflow(value.as_range().step, step.is_integer() ? step.as_int() : 1,
                               &out.step) ||
        out.step > Range::kFarthest || out.step < -Range::kFarthest)
      throw Fault("the step of a slice of a range is too large");
    if (!indices.empty()) {
      out.start = value.as_range().at(static_cast<int64_t>(indices.front()));
      out.stop = out.start + static_cast<int64_t>(indices.size()) * out.step;
    }
    return Value(out);
  }
  Values items;
  for (const size_t i : picked(context, size, from, to, step)) items.push_back(value.items()[i]);
  return value.is(Kind::kTuple) ? context.tuple(std::move(items)) : context.list(std::move(items));
}

Value path_of(Context& context, const Value& value, const Value& path) {
  if (!path.is(Kind::kText)) return path.is(Kind::kNone) ? value : item_of(context, value, path);
  Value out = value;
  std::string_view rest = path.as_text();
  for (bool more = true; more;) {
    context.budget().spend(1);
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    more = dot != rest.npos;
    if (more) rest.remove_prefix(dot + 1);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    out = item_of(context, out,
                  number ? Value(parsed_int(part, 10).value_or(0)) : context.text(part));
  }
  return out;
}

}  // namespace ds::chat
