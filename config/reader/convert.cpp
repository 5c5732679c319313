#include "config/reader/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "config/reader/nearest.h"
#include "config/reader/secret_keys.h"
#include "core/text/letters.h"

namespace ds {

namespace {

constexpr double kTwoTo63 = 9223372036854775808.0;

// Names and paths end at a NUL wherever the system reads them.
bool has_nul(const Value& value) {
  if (value.is_list()) return std::ranges::any_of(value.items(), has_nul);
  return value.is_string() && value.as_string().find('\0') != std::string::npos;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool read(const Value& value, const Spec& spec, bool& out) {
  static constexpr std::array kTrue = {"true", "1", "on", "yes", "y", "t"};
  static constexpr std::array kFalse = {"false", "0", "off", "no", "n", "f"};
  if (spec.refuse_text && value.is_string()) return false;
  switch (value.kind()) {
    case Value::Kind::kBoolean:
      out = value.as_boolean();
      return true;
    case Value::Kind::kInteger:
    case Value::Kind::kNumber:
      out = value.as_number() == 1.0;
      return out || value.as_number() == 0.0;
    case Value::Kind::kString: {
      const std::string text = lower_case(value.as_string());
      out = std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end();
      return out || std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end();
    }
    default:
      return false;
  }
}

bool read_digits(std::string_view text, int64_t& out) {
  text = trimmed(text);
  if (const size_t point = text.find('.'); point != std::string_view::npos) {
    const std::string_view zeros = text.substr(point + 1);
    if (zeros.empty() || zeros.find_first_not_of('0') != std::string_view::npos) return false;
    text = text.substr(0, point);
  }
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool read(const Value& value, const Spec& spec, int64_t& out) {
  if (spec.refuse_text && value.is_string()) return false;
  switch (value.kind()) {
    case Value::Kind::kBoolean:
      if (spec.refuse_boolean) return false;
      out = value.as_boolean() ? 1 : 0;
      return true;
    case Value::Kind::kInteger:
      out = value.as_integer();
      return true;
    case Value::Kind::kNumber: {
      const double number = value.as_number();
      if (std::trunc(number) != number || number < -kTwoTo63 || number >= kTwoTo63) return false;
      out = static_cast<int64_t>(number);
      return true;
    }
    case Value::Kind::kString:
      return read_digits(value.as_string(), out);
    default:
      return false;
  }
}

bool read(const Value& value, const Spec& spec, double& out) {
  if (spec.refuse_text && value.is_string()) return false;
  switch (value.kind()) {
    case Value::Kind::kBoolean:
      if (spec.refuse_boolean) return false;
      out = value.as_boolean() ? 1.0 : 0.0;
      return true;
    case Value::Kind::kInteger:
    case Value::Kind::kNumber:
      out = value.as_number();
      return true;
    case Value::Kind::kString: {
      const std::string_view text = trimmed(value.as_string());
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
      return error == std::errc{} && end == text.data() + text.size() && std::isfinite(out);
    }
    default:
      return false;
  }
}

bool read(const Value& value, const Spec&, std::string& out) {
  if (!value.is_string() || has_nul(value)) return false;
  out = value.as_string();
  return true;
}

bool read(const Value& value, const Spec& spec, Pair& out) {
  return value.is_list() && value.items().size() == 2 && read(value.items()[0], spec, out[0]) &&
         read(value.items()[1], spec, out[1]);
}

template <class T>
bool read(const Value& value, const Spec& spec, std::vector<T>& out) {
  if (!value.is_list()) {
    return spec.one_or_list && read(value, spec, out.emplace_back());
  }
  for (const Value& item : value.items()) {
    if (!read(item, spec, out.emplace_back())) return false;
  }
  return true;
}

bool in_range(double number, const Spec& spec) {
  return !(spec.min && number < *spec.min) && !(spec.above && number <= *spec.above) &&
         !(spec.max && number > *spec.max) && !(spec.below && number >= *spec.below);
}

bool in_range(bool, const Spec&) { return true; }
bool in_range(int64_t number, const Spec& spec) {
  return in_range(static_cast<double>(number), spec);
}
bool in_range(const std::string&, const Spec&) { return true; }
bool in_range(const Pair& pair, const Spec& spec) {
  return in_range(pair[0], spec) && in_range(pair[1], spec);
}
template <class T>
bool in_range(const std::vector<T>& items, const Spec& spec) {
  return std::all_of(items.begin(), items.end(), [&](const T& x) { return in_range(x, spec); });
}

struct Store {
  const Value& value;
  const Spec& spec;

  template <class T>
  Stored operator()(T* target) const {
    T read_value{};
    if (!read(value, spec, read_value)) return Stored::kWrongKind;
    const bool fits = in_range(read_value, spec);
    *target = std::move(read_value);
    return fits ? Stored::kDone : Stored::kOutOfRange;
  }
  template <class T>
  Stored operator()(std::optional<T>* target) const {
    if (value.is_null()) {
      if (spec.refuse_null || spec.required) return Stored::kWrongKind;
      target->reset();
      return Stored::kDone;
    }
    T read_value{};
    const Stored stored = (*this)(&read_value);
    if (stored != Stored::kWrongKind) *target = std::move(read_value);
    return stored;
  }
  Stored operator()(Value* target) const {
    if (spec.object_only && !value.is_object() && !value.is_null()) return Stored::kWrongKind;
    *target = value;
    return Stored::kDone;
  }
  Stored operator()(const EnumRef& target) const {
    if (value.is_null()) {
      if (target.nullable()) target.set(std::nullopt);
      return target.nullable() ? Stored::kDone : Stored::kWrongKind;
    }
    if (!value.is_string()) return Stored::kWrongKind;
    const bool exact = spec.letter_case == LetterCase::kExact;
    for (const EnumName& name : target.names()) {
      if (exact ? name.name == value.as_string()
                : lower_case(name.name) == lower_case(value.as_string())) {
        target.set(name.value);
        return Stored::kDone;
      }
    }
    return Stored::kWrongKind;
  }
};

}  // namespace

Stored store(const Value& value, const Field& field) {
  return std::visit(Store{value, field.spec}, field.slot);
}

namespace {

struct ToValue {
  Value operator()(const bool* x) const { return Value::boolean(*x); }
  Value operator()(const int64_t* x) const { return Value::integer(*x); }
  Value operator()(const double* x) const { return Value::number(*x); }
  Value operator()(const std::string* x) const { return Value::string(*x); }
  Value operator()(const Pair* x) const {
    return Value::list({Value::number((*x)[0]), Value::number((*x)[1])});
  }
  Value operator()(const Value* x) const { return *x; }
  Value operator()(const EnumRef& x) const {
    return x.get() ? Value::string(std::string(x.name())) : Value::null();
  }
  template <class T>
  Value operator()(const std::vector<T>* x) const {
    Value list = Value::list();
    for (const T& item : *x) list.items().push_back((*this)(&item));
    return list;
  }
  template <class T>
  Value operator()(const std::optional<T>* x) const {
    return *x ? (*this)(&**x) : Value::null();
  }
};

struct TakesNull {
  const Spec& spec;
  template <class T>
  bool operator()(T*) const {
    return false;
  }
  template <class T>
  bool operator()(std::optional<T>*) const {
    return !spec.refuse_null && !spec.required;
  }
  bool operator()(Value*) const { return true; }
  bool operator()(const EnumRef& target) const { return target.nullable(); }
};

}  // namespace

Value field_value(const Field& field) { return std::visit(ToValue{}, field.slot); }

bool takes_null(const Field& field) { return std::visit(TakesNull{field.spec}, field.slot); }

std::optional<bool> boolean_of(const Value& value) {
  bool out = false;
  return read(value, Spec{}, out) ? std::optional(out) : std::nullopt;
}

namespace {

// DeepSpeed looks any name it does not know up in PyTorch.
constexpr auto kTorchNames = std::to_array<std::string_view>({"ASGD",
                                                              "Adadelta",
                                                              "Adafactor",
                                                              "Adamax",
                                                              "LBFGS",
                                                              "NAdam",
                                                              "RAdam",
                                                              "RMSprop",
                                                              "Rprop",
                                                              "SparseAdam",
                                                              "ChainedScheduler",
                                                              "ConstantLR",
                                                              "CosineAnnealingLR",
                                                              "CosineAnnealingWarmRestarts",
                                                              "CyclicLR",
                                                              "ExponentialLR",
                                                              "LambdaLR",
                                                              "LinearLR",
                                                              "MultiStepLR",
                                                              "MultiplicativeLR",
                                                              "OneCycleLR",
                                                              "PolynomialLR",
                                                              "ReduceLROnPlateau",
                                                              "SequentialLR",
                                                              "StepLR"});

bool begins_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+') || text.starts_with('.'))
    text.remove_prefix(1);
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

// "GB_SIZE,", "${lr}", "{{ steps }}", "<batch>": a script was to put a value there. The comma is
// there because a text without quotes goes on to the end of its line.
bool is_placeholder(std::string_view text) {
  if (text.ends_with(',')) text.remove_suffix(1);
  if (text.starts_with("$") || text.starts_with("{{") ||
      (text.starts_with('<') && text.ends_with('>')))
    return true;
  if (begins_number(text)) return false;
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const auto upper = std::ranges::count_if(text, is_letter);
  return text.find('_') != std::string_view::npos && upper * 3 >= std::ssize(text) * 2;
}

bool takes_one_number(const Field& field) {
  return std::holds_alternative<bool*>(field.slot) ||
         std::holds_alternative<int64_t*>(field.slot) ||
         std::holds_alternative<double*>(field.slot) ||
         std::holds_alternative<std::optional<int64_t>*>(field.slot) ||
         std::holds_alternative<std::optional<double>*>(field.slot) ||
         std::holds_alternative<std::optional<bool>*>(field.slot);
}

std::string hint(const Value& value, const Field& field) {
  if (has_nul(value)) return "; a NUL character can be in no name or path";
  if (value.is_list() && value.items().size() > 1 && takes_one_number(field)) {
    return "; several values to choose from are for autotuning, which is not available in this "
           "build";
  }
  if (!value.is_string()) return "";
  const std::string& text = value.as_string();
  if (is_placeholder(text))
    return "; it looks like the placeholder of a template: put a value there";
  // A text without quotes goes on to the end of its line (Hjson).
  if (text.find("\":") != std::string::npos) return "; is a comma missing after it?";
  if (takes_one_number(field) && begins_number(text) && text.find('_') != std::string::npos) {
    return "; there is no _ in numbers";
  }
  const auto* names = std::get_if<EnumRef>(&field.slot);
  if (!names) return "";
  if (std::ranges::find(kTorchNames, text) != kTorchNames.end()) {
    return fmt::format("; PyTorch's {} is not available in this build", text);
  }
  std::vector<std::string> known;
  for (const EnumName& name : names->names()) known.emplace_back(name.name);
  const std::string nearest = misspelt_name(text, known);
  if (!nearest.empty()) return fmt::format("; did you mean \"{}\"?", nearest);
  return field.key == "type" ? "; no other is available in this build" : "";
}

}  // namespace

std::string refusal(const Value& value, const Field& field) {
  const std::string range = range_text(field.spec);
  if (is_secret_key(field.key)) {
    return fmt::format("got {} {}, expected {}", value.kind_name(), kKeptSecret, type_text(field));
  }
  return fmt::format("got {}, expected {}{}{}{}", value.excerpt(), type_text(field),
                     range.empty() ? "" : " ", range, hint(value, field));
}

}  // namespace ds
