#include "data/chat/run/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

[[noreturn]] void refuse_operands(std::string_view sign, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is(Kind::kUndefined)) throw Fault(side->undefined_message());
  }
  throw Fault(fmt::format("'{}' is not possible between '{}' and '{}'", sign, left.type_name(),
                          right.type_name()));
}

int64_t checked(bool overflow, int64_t value) {
  if (overflow) throw Fault("an integer has more than 64 bits, which are not supported");
  return value;
}

int64_t add_integers(int64_t a, int64_t b) {
  int64_t out = 0;
  const bool overflow = __builtin_add_overflow(a, b, &out);
  return checked(overflow, out);
}

int64_t multiply_integers(int64_t a, int64_t b) {
  int64_t out = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &out);
  return checked(overflow, out);
}

Value joined_texts(Context& context, const Value& left, const Value& right) {
  context.budget().spend_on(left.as_text().size() + right.as_text().size());
  if (!left.is_markup() && !right.is_markup())
    return context.text(left.as_text() + right.as_text());
  const auto safe = [](const Value& v) {
    return v.is_markup() ? v.as_text() : escaped(v.as_text());
  };
  return make_markup(&context.budget(), safe(left) + safe(right));
}

Value joined_sequences(Context& context, const Value& left, const Value& right) {
  context.budget().spend((left.items().size() + right.items().size()) / 8);
  Values items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return make_sequence(&context.budget(), std::move(items),
                       left.is(Kind::kTuple) ? Sequence::Form::kTuple : Sequence::Form::kList);
}

Value add(Context& context, const Value& left, const Value& right) {
  if (left.is(Kind::kText) && right.is(Kind::kText)) return joined_texts(context, left, right);
  if (left.is_integer() && right.is_integer())
    return Value(add_integers(left.as_int(), right.as_int()));
  if (left.is_number() && right.is_number()) return Value(left.as_double() + right.as_double());
  if (left.is_sequence() && left.kind() == right.kind())
    return joined_sequences(context, left, right);
  refuse_operands("+", left, right);
}

Value subtract(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) {
    int64_t out = 0;
    const bool overflow = __builtin_sub_overflow(left.as_int(), right.as_int(), &out);
    return Value(checked(overflow, out));
  }
  if (left.is_number() && right.is_number()) return Value(left.as_double() - right.as_double());
  refuse_operands("-", left, right);
}

Value repeated(Context& context, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t size =
      value.is(Kind::kText) ? value.as_text().size() : value.items().size() * sizeof(Value);
  const size_t limit = context.budget().limits().bytes;
  if (size > 0 && count > limit / size) context.budget().take(limit + 1);
  context.budget().spend_on(size * count);
  if (value.is(Kind::kText)) {
    std::string out;
    if (size > 0) {
      for (size_t i = 0; i < count; ++i) out += value.as_text();
    }
    return value.is_markup() ? make_markup(&context.budget(), std::move(out))
                             : context.text(std::move(out));
  }
  Values items;
  for (size_t i = 0; i < count && size > 0; ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return make_sequence(&context.budget(), std::move(items),
                       value.is(Kind::kTuple) ? Sequence::Form::kTuple : Sequence::Form::kList);
}

Value multiply(Context& context, const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer())
    return Value(multiply_integers(left.as_int(), right.as_int()));
  if (left.is_number() && right.is_number()) return Value(left.as_double() * right.as_double());
  const auto repeats = [](const Value& v) { return v.is(Kind::kText) || v.is_sequence(); };
  if (repeats(left) && right.is_integer()) return repeated(context, left, right.as_int());
  if (left.is_integer() && repeats(right)) return repeated(context, right, left.as_int());
  refuse_operands("*", left, right);
}

double divisor(std::string_view sign, const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) refuse_operands(sign, left, right);
  if (right.as_double() == 0) throw Fault("division by zero");
  return right.as_double();
}

// Quotients are rounded down, and a remainder has the sign of the divisor.
double float_remainder(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_quotient(double a, double b) {
  const double quotient = (a - float_remainder(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double down = std::floor(quotient);
  return quotient - down > 0.5 ? down + 1 : down;
}

Value floor_divide(const Value& left, const Value& right) {
  const double by = divisor("//", left, right);
  if (!left.is_integer() || !right.is_integer()) return Value(float_quotient(left.as_double(), by));
  const int64_t a = left.as_int(), b = right.as_int();
  if (b == -1) return negated(Value(a));
  return Value(a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0)));
}

Value modulo(Context& context, const Value& left, const Value& right) {
  if (left.is(Kind::kText)) return context.text(percent_formatted(context, left.as_text(), right));
  const double by = divisor("%", left, right);
  if (!left.is_integer() || !right.is_integer())
    return Value(float_remainder(left.as_double(), by));
  const int64_t a = left.as_int(), b = right.as_int();
  if (b == -1) return Value(int64_t{0});
  const int64_t rest = a % b;
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value power_of_integers(int64_t base, int64_t exponent) {
  if (exponent > 64 && (base > 1 || base < -1)) checked(true, 0);
  if (base == 1 || (base == -1 && exponent % 2 == 0)) return Value(int64_t{1});
  if (base == 0 || base == -1) return Value(exponent == 0 ? int64_t{1} : base);
  int64_t out = 1;
  for (int64_t i = 0; i < exponent; ++i) out = multiply_integers(out, base);
  return Value(out);
}

Value power(const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) refuse_operands("**", left, right);
  if (left.is_integer() && right.is_integer() && right.as_int() >= 0)
    return power_of_integers(left.as_int(), right.as_int());
  const double a = left.as_double(), b = right.as_double();
  if (a == 0 && b < 0) throw Fault("0 to a negative power");
  if (a < 0 && std::isfinite(b) && b != std::floor(b))
    throw Fault("complex numbers are not supported");
  const double out = std::pow(a, b);
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) throw Fault("a power is too large");
  return Value(out);
}

bool text_contains(Context& context, const std::string& whole, const std::string& part) {
  context.budget().spend_on(whole.size());
  context.budget().spend(whole.size() / 256 * part.size() / 256);
  return whole.find(part) != std::string::npos;
}

bool range_contains(Context& context, const Range& range, const Value& part) {
  if (!part.is_number()) return false;
  for (int64_t i = 0; i < range.size(); ++i) {
    if (equal(&context.budget(), Value(range.at(i)), part)) return true;
  }
  return false;
}

}  // namespace

Value negated(const Value& value) {
  if (value.is(Kind::kFloat)) return Value(-value.as_double());
  if (!value.is_integer()) refuse_type("-", value);
  return subtract(Value(int64_t{0}), value);
}

Value positive(const Value& value) {
  if (value.is(Kind::kFloat)) return value;
  if (!value.is_integer()) refuse_type("+", value);
  return Value(value.as_int());
}

Value calculate(Context& context, Operator sign, const Value& left, const Value& right) {
  switch (sign) {
    case Operator::kAdd:
      return add(context, left, right);
    case Operator::kSubtract:
      return subtract(left, right);
    case Operator::kMultiply:
      return multiply(context, left, right);
    case Operator::kDivide: {
      const double by = divisor("/", left, right);
      return Value(left.as_double() / by);
    }
    case Operator::kFloorDivide:
      return floor_divide(left, right);
    case Operator::kModulo:
      return modulo(context, left, right);
    default:
      return power(left, right);
  }
}

bool contains(Context& context, const Value& whole, const Value& part) {
  switch (whole.kind()) {
    case Kind::kText:
      if (!part.is(Kind::kText)) refuse_type("in a text", part);
      return text_contains(context, whole.as_text(), part.as_text());
    case Kind::kDict:
      check_hashable(part);
      context.budget().spend((whole.as_dict().items.size() - whole.as_dict().index.size()) / 64);
      return whole.as_dict().find(part) != nullptr;
    case Kind::kRange:
      return range_contains(context, whole.as_range(), part);
    case Kind::kView:
      if (whole.as_view().part == View::Part::kKeys) {
        check_hashable(part);
        const Dict& dict = *whole.as_view().dict;
        context.budget().spend((dict.items.size() - dict.index.size()) / 64);
        return dict.find(part) != nullptr;
      }
      [[fallthrough]];
    default: {
      const Values items = items_of(context, whole);
      return std::ranges::any_of(
          items, [&](const Value& item) { return equal(&context.budget(), item, part); });
    }
  }
}

bool compare(Context& context, Operator sign, const Value& left, const Value& right) {
  Budget* budget = &context.budget();
  switch (sign) {
    case Operator::kEqual:
      return equal(budget, left, right);
    case Operator::kNotEqual:
      return !equal(budget, left, right);
    case Operator::kLess:
      return less(budget, left, right);
    case Operator::kGreater:
      return less(budget, right, left);
    case Operator::kLessEqual:
      return less(budget, left, right) || equal(budget, left, right);
    case Operator::kGreaterEqual:
      return less(budget, right, left) || equal(budget, left, right);
    case Operator::kIn:
      return contains(context, right, left);
    default:
      return !contains(context, right, left);
  }
}

}  // namespace ds::chat
