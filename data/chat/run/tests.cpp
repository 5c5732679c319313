#include "data/chat/run/tests.h"

#include <algorithm>
#include <array>

#include "data/chat/run/filters.h"
#include "data/chat/run/operators.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

template <Kind... kKinds>
Value is_one_of(Context&, const Value& self, const Arguments&) {
  const Kind kind = self.kind();
  return Value(((kind == kKinds) || ...));
}

template <bool kWanted>
Value is_bool(Context&, const Value& self, const Arguments&) {
  return Value(self.is(Kind::kBool) && self.as_bool() == kWanted);
}

Value is_defined(Context&, const Value& self, const Arguments&) {
  return Value(!self.is(Kind::kUndefined));
}

template <Operator kSign>
Value compares(Context& context, const Value& self, const Arguments& arguments) {
  return Value(compare(context, kSign, self, arguments[0]));
}

template <int64_t kRest>
Value has_rest(Context& context, const Value& self, const Arguments&) {
  const Value rest = calculate(context, Operator::kModulo, self, Value(int64_t{2}));
  return Value(equal(nullptr, rest, Value(kRest)));
}

Value is_divisible(Context& context, const Value& self, const Arguments& arguments) {
  const Value rest = calculate(context, Operator::kModulo, self, arguments[0]);
  return Value(equal(nullptr, rest, Value(int64_t{0})));
}

template <bool (*kIs)(char32_t), bool (*kIsOther)(char32_t)>
Value has_case(Context& context, const Value& self, const Arguments&) {
  const std::u32string characters = characters_of(context.str(self));
  return Value(std::ranges::any_of(characters, kIs) && std::ranges::none_of(characters, kIsOther));
}

Value is_same(Context&, const Value& self, const Arguments& arguments) {
  return Value(same(self, arguments[0]));
}

Value is_escaped(Context&, const Value& self, const Arguments&) { return Value(self.is_markup()); }

Value is_filter(Context&, const Value& self, const Arguments&) {
  return Value(self.is(Kind::kText) && find_filter(self.as_text()) != nullptr);
}

Value is_test(Context&, const Value& self, const Arguments&) {
  return Value(self.is(Kind::kText) && find_test(self.as_text()) != nullptr);
}

constexpr std::array kTests{
    Native{"!=", "/b", compares<Operator::kNotEqual>},
    Native{"<", "/b", compares<Operator::kLess>},
    Native{"<=", "/b", compares<Operator::kLessEqual>},
    Native{"==", "/b", compares<Operator::kEqual>},
    Native{">", "/b", compares<Operator::kGreater>},
    Native{">=", "/b", compares<Operator::kGreaterEqual>},
    Native{"boolean", "", is_one_of<Kind::kBool>},
    Native{"callable", "", is_one_of<Kind::kMacro, Kind::kFunction, Kind::kLoop, Kind::kUndefined>},
    Native{"defined", "", is_defined},
    Native{"divisibleby", "num", is_divisible},
    Native{"eq", "/b", compares<Operator::kEqual>},
    Native{"equalto", "/b", compares<Operator::kEqual>},
    Native{"escaped", "", is_escaped},
    Native{"even", "", has_rest<0>},
    Native{"false", "", is_bool<false>},
    Native{"filter", "", is_filter},
    Native{"float", "", is_one_of<Kind::kFloat>},
    Native{"ge", "/b", compares<Operator::kGreaterEqual>},
    Native{"greaterthan", "/b", compares<Operator::kGreater>},
    Native{"gt", "/b", compares<Operator::kGreater>},
    Native{"in", "seq", compares<Operator::kIn>},
    Native{"integer", "", is_one_of<Kind::kInt>},
    Native{"iterable", "",
           is_one_of<Kind::kText, Kind::kList, Kind::kTuple, Kind::kDict, Kind::kView,
                     Kind::kIterator, Kind::kRange, Kind::kLoop, Kind::kUndefined>},
    Native{"le", "/b", compares<Operator::kLessEqual>},
    Native{"lessthan", "/b", compares<Operator::kLess>},
    Native{"lower", "", has_case<is_lower, is_upper>},
    Native{"lt", "/b", compares<Operator::kLess>},
    Native{"mapping", "", is_one_of<Kind::kDict>},
    Native{"ne", "/b", compares<Operator::kNotEqual>},
    Native{"none", "", is_one_of<Kind::kNone>},
    Native{"number", "", is_one_of<Kind::kInt, Kind::kFloat, Kind::kBool>},
    Native{"odd", "", has_rest<1>},
    Native{"sameas", "other", is_same},
    Native{"sequence", "",
           is_one_of<Kind::kText, Kind::kList, Kind::kTuple, Kind::kDict, Kind::kRange,
                     Kind::kUndefined>},
    Native{"string", "", is_one_of<Kind::kText>},
    Native{"test", "", is_test},
    Native{"true", "", is_bool<true>},
    Native{"undefined", "", is_one_of<Kind::kUndefined>},
    Native{"upper", "", has_case<is_upper, is_lower>},
};
static_assert(std::ranges::is_sorted(kTests, {}, &Native::name));

}  // namespace

const Native* find_test(std::string_view name) {
  const auto found = std::ranges::lower_bound(kTests, name, {}, &Native::name);
  return found != kTests.end() && found->name == name ? &*found : nullptr;
}

}  // namespace ds::chat
