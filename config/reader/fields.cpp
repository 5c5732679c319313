#include "config/reader/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ds {

std::string_view EnumRef::name() const {
  const std::optional<int> value = get_();
  return value ? name_in(names_, *value) : std::string_view();
}

namespace {

struct TypeText {
  const Spec& spec;
  std::string list_of(std::string_view one, std::string_view many) const {
    return spec.one_or_list ? fmt::format("{} or list of {}", one, many)
                            : fmt::format("list of {}", many);
  }
  std::string operator()(const bool*) const { return "boolean"; }
  std::string operator()(const int64_t*) const { return "integer"; }
  std::string operator()(const double*) const { return "number"; }
  std::string operator()(const std::string*) const { return "string"; }
  std::string operator()(const Pair*) const { return "list of two numbers"; }
  std::string operator()(const std::vector<int64_t>*) const {
    return list_of("integer", "integers");
  }
  std::string operator()(const std::vector<double>*) const { return list_of("number", "numbers"); }
  std::string operator()(const std::vector<std::string>*) const {
    return list_of("string", "strings");
  }
  std::string operator()(const std::vector<std::vector<std::string>>*) const {
    return "list of lists of strings";
  }
  std::string operator()(const Value*) const { return spec.object_only ? "object or null" : "any"; }
  std::string operator()(const EnumRef& e) const {
    std::string out = "one of ";
    for (const EnumName& name : e.names()) {
      if (out.size() > 7) out += ", ";
      out += name.name;
    }
    return out + (e.nullable() ? ", null" : "");
  }
  template <class T>
  std::string operator()(const std::optional<T>*) const {
    return (*this)(static_cast<const T*>(nullptr)) +
           (spec.refuse_null || spec.required ? "" : " or null");
  }
};

}  // namespace

std::string type_text(const Field& field) { return std::visit(TypeText{field.spec}, field.slot); }

std::string range_text(const Spec& spec) {
  std::string out;
  const auto add = [&](std::string_view sign, const std::optional<double>& bound) {
    if (!bound) return;
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}", sign, *bound);
  };
  add(">=", spec.min);
  add(">", spec.above);
  add("<=", spec.max);
  add("<", spec.below);
  return out;
}

std::string effect_text(const Spec& spec) {
  const bool some = !spec.only.empty() && spec.only.front() != kNoValue;
  const std::string values = some ? fmt::format("`{}`", fmt::join(spec.only, "`, `")) : "";
  switch (spec.effect) {
    case Effect::kUsed:
      return some ? fmt::format("used; only {} yet", values) : "used";
    case Effect::kAlwaysSo:
      return fmt::format("always so{}{}: {}", some ? ", as with " : "", values, spec.here);
    case Effect::kNotYet:
      break;
  }
  return some ? fmt::format("not yet, but {}", values) : "not yet";
}

}  // namespace ds
