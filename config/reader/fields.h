// How a configuration struct shows its fields. Every section is a plain struct with one function
//   void fields(Visitor& visitor, SomeConfig& config);
// that names each key once: its place in the struct, its bounds, its meaning. Reading, writing,
// errors about unknown keys, explain, the JSON Schema and docs/config.md are visitors. The
// interface is type-erased so that each fields() is compiled once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/reader/enum_name.h"
#include "config/reader/value.h"

namespace ds {

enum class LetterCase { kExact, kIgnored };

// A reference to an enum or an optional enum, with its type erased.
class EnumRef {
 public:
  template <class E>
  explicit EnumRef(E& target)
      : names_(names_of(E{})),
        nullable_(false),
        get_([&target] { return std::optional<int>(static_cast<int>(target)); }),
        set_([&target](std::optional<int> v) { target = static_cast<E>(v.value_or(0)); }) {}
  template <class E>
  explicit EnumRef(std::optional<E>& target)
      : names_(names_of(E{})),
        nullable_(true),
        get_([&target] {
          return target ? std::optional<int>(static_cast<int>(*target)) : std::nullopt;
        }),
        set_([&target](std::optional<int> v) {
          target = v ? std::optional<E>(static_cast<E>(*v)) : std::nullopt;
        }) {}

  std::span<const EnumName> names() const { return names_; }
  bool nullable() const { return nullable_; }
  std::optional<int> get() const { return get_(); }
  void set(std::optional<int> value) const { set_(value); }
  std::string_view name() const;  // canonical spelling of the present value; empty when unset

 private:
  std::span<const EnumName> names_;
  bool nullable_;
  std::function<std::optional<int>()> get_;
  std::function<void(std::optional<int>)> set_;
};

using Pair = std::array<double, 2>;

// A slot is where a field's value lives. Optional: null (or absence) is a value of its own.
using Slot =
    std::variant<bool*, int64_t*, double*, std::string*, Pair*, std::vector<int64_t>*,
                 std::vector<double>*, std::vector<std::string>*, std::optional<bool>*,
                 std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*,
                 std::optional<std::vector<int64_t>>*, std::optional<std::vector<double>>*,
                 std::optional<std::vector<std::string>>*,
                 std::optional<std::vector<std::vector<std::string>>>*, Value*, EnumRef>;

// What a key does in this build. No key is accepted and ignored without a word.
enum class Effect {
  kNotYet,    // refused by name where it differs from its default: what an author who says nothing
              // says
  kUsed,      // it changes what a run does
  kAlwaysSo,  // one behaviour, whatever is said: a note where another one is asked for
};

// In `Spec::only`: what is so here is none of the key's values.
inline constexpr std::string_view kNoValue = "-";

// What is to be known about a field beside its key and place.
struct Spec {
  std::string_view meaning;         // one sentence, without units repeated from the name
  Effect effect = Effect::kNotYet;  // config/effect.h judges by it
  std::string_view here = {};       // kAlwaysSo: what is so here, a clause
  // The values that this build has: of kUsed all where none is listed, of kNotYet these beside the
  // default, of kAlwaysSo the default where none is listed.
  std::vector<std::string_view> only = {};
  std::optional<double> min = {};    // >=, applied to numbers and to each element of lists
  std::optional<double> above = {};  // >
  std::optional<double> max = {};    // <=
  std::optional<double> below = {};  // <
  std::vector<std::string_view> synonyms = {};  // accepted with a note; both given is an error
  LetterCase letter_case = LetterCase::kExact;  // of enum spellings
  bool one_or_list = false;          // lists: a single element may stand without brackets
  bool object_only = false;          // of free-form values: nothing but an object (or null)
  bool required = false;             // must be given when its section is
  bool omit_unset = false;           // the written form leaves the key out while it has no value
  bool refuse_null = false;          // an explicit null is an error although "no value" exists
  bool refuse_boolean = false;       // true is not taken as 1
  bool refuse_text = false;          // "yes" is not taken as true, "5" not as 5
  bool own_range = false;            // DeepSpeed does not check the bounds
  bool deepspeed_refuses = false;    // DeepSpeed checks the value though it checks little else here
  std::string_view unset_text = {};  // written instead of null, e.g. "auto"
  std::string_view unset_meaning = {};  // what absence means, for the documentation
};

struct Field {
  std::string_view key;
  Slot slot;
  const Spec& spec;
};

// How much of a section DeepSpeed itself checks when it reads a file. We always check all of it;
// the difference only decides whose error it is (Basis).
enum class DeepSpeedChecks { kLittle, kKeysAndValues };

struct SectionSpec {
  std::string_view meaning;
  DeepSpeedChecks deepspeed_checks = DeepSpeedChecks::kLittle;
  // kUsed: its keys speak for themselves. kNotYet: it is one feature that this build lacks, refused
  // as a whole where it can be absent or switched off, else by the keys that ask for it.
  Effect effect = Effect::kUsed;
  std::string_view off = {};   // "enabled is false": then the section has no effect
  std::string_view here = {};  // of a missing feature: what there is instead; {} is the switch
};

class Visitor;

struct Section {
  std::string_view key;
  const SectionSpec& spec;
  bool optional;  // absent and empty differ
  std::function<bool()> present;
  std::function<void()> make_present;
  std::function<void(Visitor&)> walk;
};

// Tells whether a section is refused as a whole if it is there and not off.
inline bool is_one_missing_feature(const Section& section) {
  return section.spec.effect == Effect::kNotYet && (section.optional || !section.spec.off.empty());
}

// An object whose keys are free names (<group>) or a list of objects; all elements have the same
// fields.
struct Collection {
  std::string_view key;
  const SectionSpec& spec;
  std::string_view placeholder;  // "<group>", or "[]" for a list
  std::function<std::vector<std::string>()> names;
  std::function<void(const std::string& name)> add;
  std::function<void(const std::string& name, Visitor&)> walk;
  std::function<void(Visitor&)> walk_default;  // a default element, for descriptions

  bool is_list() const { return placeholder == "[]"; }
};

// A key that is no longer a place of its own: it is rewritten before reading
// (config/reader/rewrite.h).
struct Retired {
  std::string_view key;
  std::string_view replacement;  // path, "" when there is none
  std::string_view meaning;
};

// Every key that no other field of the object claims, kept as written.
struct Rest {
  std::string_view placeholder;
  Value& target;
  std::string_view meaning;
};

class Visitor {
 public:
  virtual ~Visitor() = default;

  virtual void on_field(const Field& field) = 0;
  virtual void on_section(const Section& section) = 0;
  virtual void on_collection(const Collection& collection) = 0;
  virtual void on_retired(const Retired&) {}
  virtual void on_rest(const Rest&) {}
  // Visitors that describe rather than read see the fields of every condition.
  virtual bool describes() const { return false; }
  // Visitors that show what a configuration comes to skip the parameters of features that are off.
  virtual bool only_effective() const { return false; }
  virtual void enter_condition(std::string_view) {}
  virtual void leave_condition() {}

  template <class T>
  void field(std::string_view key, T& target, const Spec& spec) {
    if constexpr (std::is_constructible_v<Slot, T*>) {
      on_field({key, Slot(&target), spec});
    } else {
      on_field({key, Slot(EnumRef(target)), spec});
    }
  }

  template <class S>
  void section(std::string_view key, S& target, const SectionSpec& spec) {
    on_section({key, spec, false, [] { return true; }, [] {},
                [&target](Visitor& v) { fields(v, target); }});
  }

  template <class S>
  void section(std::string_view key, std::optional<S>& target, const SectionSpec& spec) {
    on_section({key, spec, true, [&target] { return target.has_value(); },
                [&target] { target.emplace(); },
                [&target](Visitor& v) {
                  S blank;
                  fields(v, target ? *target : blank);
                }});
  }

  template <class S>
  void map(std::string_view key, std::string_view placeholder, std::map<std::string, S>& target,
           const SectionSpec& spec);
  template <class S>
  void list(std::string_view key, std::vector<S>& target, const SectionSpec& spec);

  void retired(std::string_view key, std::string_view replacement, std::string_view meaning) {
    on_retired({key, replacement, meaning});
  }

  void rest(std::string_view placeholder, Value& target, std::string_view meaning) {
    on_rest({placeholder, target, meaning});
  }

  // Fields that exist only in some combination, e.g. "type is Adam or AdamW".
  template <class Body>
  void when(bool applies, std::string_view condition, const Body& body) {
    if (!applies && !describes()) return;
    enter_condition(condition);
    body();
    leave_condition();
  }

  // Parameters of a feature that may be switched off: read in any case, without effect while it is
  // off.
  template <class Body>
  void while_enabled(bool enabled, const Body& body) {
    if (enabled || !only_effective()) body();
  }
};

template <class S>
void Visitor::map(std::string_view key, std::string_view placeholder,
                  std::map<std::string, S>& target, const SectionSpec& spec) {
  on_collection({key, spec, placeholder,
                 [&target] {
                   std::vector<std::string> names;
                   for (const auto& [name, element] : target) names.push_back(name);
                   return names;
                 },
                 [&target](const std::string& name) { target.emplace(name, S{}); },
                 [&target](const std::string& name, Visitor& v) { fields(v, target.at(name)); },
                 [](Visitor& v) {
                   S blank;
                   fields(v, blank);
                 }});
}

template <class S>
void Visitor::list(std::string_view key, std::vector<S>& target, const SectionSpec& spec) {
  on_collection(
      {key, spec, "[]",
       [&target] {
         std::vector<std::string> names;
         for (size_t i = 0; i < target.size(); ++i) names.push_back(std::to_string(i));
         return names;
       },
       [&target](const std::string&) { target.emplace_back(); },
       [&target](const std::string& name, Visitor& v) { fields(v, target.at(std::stoul(name))); },
       [](Visitor& v) {
         S blank;
         fields(v, blank);
       }});
}

// "integer", "list of strings", "one of a, b", ...: the type of a field in words.
std::string type_text(const Field& field);
// ">= 0, < 1", or "" without bounds.
std::string range_text(const Spec& spec);
// "used", "not yet", "always so: gradients are ...": the effect of a field in words.
std::string effect_text(const Spec& spec);

}  // namespace ds
