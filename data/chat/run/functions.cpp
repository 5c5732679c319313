#include "data/chat/run/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ds::chat {
namespace {

Value range(Context&, const Value&, const Arguments& arguments) {
  constexpr int64_t kLongest = 100'000;
  const int64_t first = int_of("range", arguments[0]);
  Range out{0, first, 1};
  if (arguments.has(1)) out = {first, int_of("range", arguments[1]), 1};
  if (arguments.has(2)) out.step = int_of("range", arguments[2]);
  for (const int64_t bound : {out.start, out.stop, out.step}) {
    if (bound > Range::kFarthest || bound < -Range::kFarthest)
      throw Fault("range: a bound is too large");
  }
  if (out.step == 0) throw Fault("range: the step is 0");
  if (out.size() > kLongest) throw Fault(fmt::format("range: more than {} numbers", kLongest));
  return Value(out);
}

// What dict(...) and namespace(...) take: a dict or pairs, and names.
std::vector<std::pair<Value, Value>> entries_of(Context& context, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> out;
  if (arguments.positional.size() > 1) throw Fault("dict takes one value and names");
  if (!arguments.positional.empty()) {
    const Value& source = arguments[0];
    if (source.is(Kind::kDict)) {
      out = source.as_dict().items;
    } else {
      for (const Value& pair : items_of(context, source)) {
        Values both = items_of(context, pair);
        if (both.size() != 2) throw Fault("dict: an item that is no pair");
        out.emplace_back(std::move(both[0]), std::move(both[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) out.emplace_back(context.text(name), value);
  return out;
}

Value dict(Context& context, const Value&, const Arguments& arguments) {
  DictMaker out(&context.budget());
  for (auto& [key, value] : entries_of(context, arguments)) {
    context.budget().spend(1);
    out.set(std::move(key), std::move(value));
  }
  return out.finish();
}

Value make_namespace(Context& context, const Value&, const Arguments& arguments) {
  constexpr size_t kBytes = 256;
  auto out = std::make_shared<Namespace>();
  context.budget().take(kBytes);  // given back when the rendering ends
  for (auto& [key, value] : entries_of(context, arguments)) {
    const std::string& name = text_of("namespace", key);
    if (name.starts_with('_'))
      throw Fault(fmt::format("a namespace holds no attribute that begins with _: '{}'", name));
    context.budget().spend(1 + out->names.size() / 64);
    context.budget().take(name.size() + sizeof(Value));
    if (Value* known = out->find(name)) {
      *known = std::move(value);
    } else {
      out->names.emplace_back(name, std::move(value));
    }
  }
  context.keep(Value(out));
  return Value(out);
}

Value raise_exception(Context& context, const Value&, const Arguments& arguments) {
  throw Fault(context.str(arguments[0]));
}

std::string with_removed(std::string format, std::string_view directive, std::string_view by) {
  for (size_t at = 0; at + 1 < format.size(); ++at) {
    if (format[at] != '%') continue;
    if (format[at + 1] == directive[0]) {
      format.replace(at, 2, by);
      at += by.size();
      --at;
    } else {
      ++at;
    }
  }
  return format;
}

// The time has no zone and no microseconds, as Python's datetime.now() without them.
Value strftime_now(Context& context, const Value&, const Arguments& arguments) {
  std::string format = text_of("strftime_now", arguments[0]);
  if (!context.clock()) throw Fault("strftime_now: the caller gave no clock");
  if (format.find('\0') != std::string::npos)
    throw Fault("strftime_now: a format with a zero byte");
  if (format.size() > 1024) throw Fault("strftime_now: the format is too long");
  format =
      with_removed(with_removed(with_removed(std::move(format), "z", ""), "Z", ""), "f", "000000");
  const std::tm now = context.clock()();
  std::string out(size_t{64} << 10, '\0');
  format += ' ';  // an empty result would look like a failure
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &now));
  if (out.empty()) throw Fault("strftime_now: the text is too long");
  out.pop_back();
  return context.text(std::move(out));
}

constexpr std::array kFunctions{
    Native{"cycler", "", nullptr},
    Native{"dict", "...", dict},
    Native{"joiner", "", nullptr},
    Native{"lipsum", "", nullptr},
    Native{"namespace", "...", make_namespace},
    Native{"raise_exception", "message", raise_exception},
    Native{"range", "/start,stop=,step=", range},
    Native{"strftime_now", "format", strftime_now},
};

}  // namespace

const Native* find_function(std::string_view name) {
  const auto found = std::ranges::find(kFunctions, name, &Native::name);
  return found == kFunctions.end() ? nullptr : &*found;
}

}  // namespace ds::chat
