#include "data/chat/value/value_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ds::chat {
namespace {

bool equal_sequences(Budget* budget, const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(budget, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Budget* budget, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::ranges::all_of(a.items, [&](const auto& item) {
    if (budget != nullptr) budget->spend((b.items.size() - b.index.size()) / 64);
    const Value* other = b.find(item.first);
    return other != nullptr && equal(budget, item.second, *other);
  });
}

bool equal_ranges(const Range& a, const Range& b) {
  const int64_t size = a.size();
  if (size != b.size()) return false;
  return size == 0 || (a.start == b.start && (size == 1 || a.step == b.step));
}

// An integer and a float are compared exactly, as in Python.
int compare_exactly(int64_t a, double b) {
  constexpr double kBeyond = 9223372036854775808.0;
  if (b >= kBeyond) return -1;
  if (b < -kBeyond) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double rest = b - std::trunc(b);
  return rest == 0 ? 0 : rest > 0 ? -1 : 1;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.as_int() == b.as_int();
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.as_double() == b.as_double();
  const Value& whole = a.is_integer() ? a : b;
  const double other = (a.is_integer() ? b : a).as_double();
  return !std::isnan(other) && compare_exactly(whole.as_int(), other) == 0;
}

bool less_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.as_int() < b.as_int();
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.as_double() < b.as_double();
  if (std::isnan(a.as_double()) || std::isnan(b.as_double())) return false;
  if (a.is_integer()) return compare_exactly(a.as_int(), b.as_double()) < 0;
  return compare_exactly(b.as_int(), a.as_double()) > 0;
}

}  // namespace

bool equal(Budget* budget, const Value& a, const Value& b) {
  if (budget != nullptr) budget->spend(1);
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      if (budget != nullptr) budget->spend_on(std::min(a.as_text().size(), b.as_text().size()));
      return a.as_text() == b.as_text();
    case Kind::kList:
    case Kind::kTuple:
      return equal_sequences(budget, a.items(), b.items());
    case Kind::kDict:
      return equal_dicts(budget, a.as_dict(), b.as_dict());
    case Kind::kRange:
      return equal_ranges(a.as_range(), b.as_range());
    default:
      return a.address() == b.address();
  }
}

bool less(Budget* budget, const Value& a, const Value& b) {
  if (budget != nullptr) budget->spend(1);
  if (a.is_number() && b.is_number()) return less_numbers(a, b);
  if (a.is(Kind::kText) && b.is(Kind::kText)) {
    if (budget != nullptr) budget->spend_on(std::min(a.as_text().size(), b.as_text().size()));
    return a.as_text() < b.as_text();  // the order of bytes of UTF-8 is that of characters
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const Values& left = a.items();
    const Values& right = b.items();
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal(budget, left[i], right[i])) return less(budget, left[i], right[i]);
    }
    return left.size() < right.size();
  }
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::kUndefined)) throw Fault(side->undefined_message());
  }
  throw Fault(fmt::format("no order between '{}' and '{}'", a.type_name(), b.type_name()));
}

bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kInt:
      return a.as_int() == b.as_int();
    case Kind::kText:
      return a.address() == b.address() || a.as_text() == b.as_text();
    default:
      return a.address() != nullptr && a.address() == b.address();
  }
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::kText)) return find(key.as_text());
  if (index.size() == items.size()) return nullptr;
  for (const auto& [name, value] : items) {
    if (!name.is(Kind::kText) && equal(nullptr, name, key)) return &value;
  }
  return nullptr;
}

}  // namespace ds::chat
