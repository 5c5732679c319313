#include "data/chat/run/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/chat/run/text_methods.h"

namespace ds::chat {
namespace {

Value get(Context& context, const Value& self, const Arguments& arguments) {
  check_hashable(arguments[0]);
  context.budget().spend((self.as_dict().items.size() - self.as_dict().index.size()) / 64);
  const Value* found = self.as_dict().find(arguments[0]);
  if (found != nullptr) return *found;
  return arguments.has(1) ? arguments[1] : Value();
}

template <View::Part kPart>
Value view(Context&, const Value& self, const Arguments&) {
  return Value(std::make_shared<const View>(View{self.shared<const Dict>(), kPart}));
}

Value copied(Context&, const Value& self, const Arguments&) { return self; }

Value index_in(Context& context, const Value& self, const Arguments& arguments) {
  const Values& items = self.items();
  const auto size = static_cast<int64_t>(items.size());
  const auto bound = [&](size_t at, int64_t otherwise) {
    if (!arguments.has(at)) return otherwise;
    const int64_t value = int_of("index", arguments[at]);
    return std::clamp<int64_t>(value < 0 ? value + size : value, 0, size);
  };
  for (int64_t i = bound(1, 0); i < bound(2, size); ++i) {
    if (equal(&context.budget(), items[static_cast<size_t>(i)], arguments[0])) return Value(i);
  }
  throw Fault("index: the value is not in the list");
}

Value count_in(Context& context, const Value& self, const Arguments& arguments) {
  return Value(int64_t{std::ranges::count_if(self.items(), [&](const Value& item) {
    return equal(&context.budget(), item, arguments[0]);
  })});
}

// One of the arguments, by turns.
Value cycle(Context&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty() || arguments.positional.empty())
    throw Fault("loop.cycle wants values to choose from");
  const auto count = static_cast<int64_t>(arguments.positional.size());
  return arguments[static_cast<size_t>(self.shared<Loop>()->index0 % count)];
}

Value has_changed(Context& context, const Value& self, const Arguments& arguments) {
  Loop& loop = *self.shared<Loop>();
  Value now = context.tuple(arguments.positional);
  if (loop.last_changed && equal(&context.budget(), *loop.last_changed, now)) return Value(false);
  context.keep(self);
  loop.last_changed = std::move(now);
  return Value(true);
}

constexpr std::array kDictMethods{
    Native{"clear", "!", nullptr},
    Native{"copy", "", copied},
    Native{"fromkeys", "", nullptr},
    Native{"get", "/key,default=", get},
    Native{"items", "", view<View::Part::kItems>},
    Native{"keys", "", view<View::Part::kKeys>},
    Native{"pop", "!", nullptr},
    Native{"popitem", "!", nullptr},
    Native{"setdefault", "!", nullptr},
    Native{"update", "!", nullptr},
    Native{"values", "", view<View::Part::kValues>},
};

constexpr std::array kListMethods{
    Native{"append", "!", nullptr}, Native{"clear", "!", nullptr},
    Native{"copy", "", copied},     Native{"count", "/value", count_in},
    Native{"extend", "!", nullptr}, Native{"index", "/value,start=,stop=", index_in},
    Native{"insert", "!", nullptr}, Native{"pop", "!", nullptr},
    Native{"remove", "!", nullptr}, Native{"reverse", "!", nullptr},
    Native{"sort", "!", nullptr},
};

constexpr std::array kTupleMethods{
    Native{"count", "/value", count_in},
    Native{"index", "/value,start=,stop=", index_in},
};

constexpr std::array kLoopMethods{
    Native{"changed", "...", has_changed},
    Native{"cycle", "...", cycle},
};

std::span<const Native> methods_of(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return text_methods();
    case Kind::kDict:
      return kDictMethods;
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
      return kTupleMethods;
    case Kind::kLoop:
      return kLoopMethods;
    default:
      return {};
  }
}

}  // namespace

const Native* find_method(Kind kind, std::string_view name) {
  const std::span<const Native> methods = methods_of(kind);
  const auto found = std::ranges::find(methods, name, &Native::name);
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace ds::chat
