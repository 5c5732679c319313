#include "config/effect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "config/catalogue.h"
#include "config/reader/condition.h"
#include "config/reader/convert.h"
#include "core/status/error.h"

namespace ds {

namespace {

constexpr std::string_view kMissing = "not available in this build";

std::string joined(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// As `Spec::only` and `SectionSpec::off` write values: JSON, strings without quotes.
std::string plain_text(const Value& value) {
  return value.is_string() ? value.as_string() : to_compact_json(value);
}

bool is_listed(const Spec& spec, const Value& value) {
  return std::ranges::find(spec.only, plain_text(value)) != spec.only.end();
}

// A free-form section that says something and is not switched off. Of values of any kind, which
// nobody has described, all are taken to say something.
bool is_used(const Value& section, const Spec& spec) {
  if (!spec.object_only || !section.is_object()) return !section.is_null();
  if (section.members().empty()) return false;
  const Value* enabled = section.find("enabled");
  return !enabled || boolean_of(*enabled).value_or(true);
}

// The value that the switch of a section has.
class SwitchFinder : public Visitor {
 public:
  explicit SwitchFinder(std::string_view key) : key_(key) {}
  void on_field(const Field& field) override {
    if (joined(path_, field.key) == key_) found_ = plain_text(field_value(field));
  }
  void on_section(const Section& section) override {
    const std::string outer = std::exchange(path_, joined(path_, section.key));
    if (key_.starts_with(path_ + ".")) section.walk(*this);
    path_ = outer;
  }
  void on_collection(const Collection&) override {}
  const std::string& found() const { return found_; }

 private:
  std::string_view key_;
  std::string path_;
  std::string found_;
};

std::string switch_value(const Section& section, std::string_view key) {
  SwitchFinder finder(key);
  section.walk(finder);
  DS_CHECK(!finder.found().empty(), "effects: section {} has no {}", section.key, key);
  return finder.found();
}

// Paths with free names as placeholders, and the condition that stands before a key: what tells
// keys apart.
class KeyWalker : public Visitor {
 public:
  void on_section(const Section& section) override {
    inside(section.key, section.key, section.walk);
  }
  void enter_condition(std::string_view condition) override { level_.condition = condition; }
  void leave_condition() override { level_.condition = {}; }

 protected:
  std::string key_id(std::string_view key) const {
    return fmt::format("{}|{}", joined(level_.generic, key), level_.condition);
  }
  std::string path_of(std::string_view key) const { return joined(level_.path, key); }
  std::string_view condition() const { return level_.condition; }
  void inside(std::string_view name, std::string_view generic,
              const std::function<void(Visitor&)>& walk) {
    // What a condition holds stays told apart by it, however deep.
    const std::string under = level_.condition.empty() ? "" : fmt::format("({})", level_.condition);
    Level outer = std::exchange(
        level_, {joined(level_.path, name), joined(level_.generic, generic) + under, {}});
    walk(*this);
    level_ = std::move(outer);
  }

 private:
  struct Level {
    std::string path;
    std::string generic;
    std::string_view condition;
  };
  Level level_;
};

class DefaultsWalker final : public KeyWalker {
 public:
  bool describes() const override { return true; }
  void on_field(const Field& field) override {
    defaults.emplace(key_id(field.key), field_value(field));
  }
  void on_collection(const Collection& collection) override {
    inside(collection.key, joined(collection.key, collection.placeholder), collection.walk_default);
  }
  std::map<std::string, Value> defaults;
};

const std::map<std::string, Value>& defaults() {
  static const std::map<std::string, Value> kDefaults = [] {
    Config blank;
    DefaultsWalker walker;
    fields(walker, blank);
    return std::move(walker.defaults);
  }();
  return kDefaults;
}

class EffectWalker final : public KeyWalker {
 public:
  Effects take() { return std::move(effects_); }

  void on_field(const Field& field) override {
    if (is_moot(field.key)) return;
    const Value value = field_value(field);
    switch (field.spec.effect) {
      case Effect::kUsed:
        return judge_value(field, value);
      case Effect::kAlwaysSo:
        return judge_fixed(field, value);
      case Effect::kNotYet:
        return judge_missing(field, value);
    }
  }

  void on_section(const Section& section) override {
    if (is_moot(section.key) || !section.present()) return;
    const std::string path = path_of(section.key);
    std::string value;
    if (!section.spec.off.empty()) {
      const Condition off(section.spec.off);  // "enabled is false"; the key may lead into a section
      value = switch_value(section, off.key);
      if (off.has(value)) {
        effects_.off.push_back(
            {path, joined(path, off.key), fmt::format("{}.{}", path, section.spec.off)});
        return;
      }
    }
    if (is_one_missing_feature(section)) {
      const std::string there = section.spec.here.empty()
                                    ? std::string()
                                    : fmt::format(fmt::runtime(section.spec.here), value);
      effects_.missing.push_back({path, std::string(kMissing) + there, {path}});
      return;
    }
    const std::string outer =
        section.spec.effect == Effect::kNotYet ? std::exchange(feature_, path) : feature_;
    const bool refused = std::exchange(kind_is_missing_, false);
    KeyWalker::on_section(section);
    kind_is_missing_ = refused;
    feature_ = outer;
  }

  void on_collection(const Collection& collection) override {
    if (is_moot(collection.key)) return;
    for (const std::string& name : collection.names()) {
      const std::string element = collection.is_list() ? fmt::format("{}[{}]", collection.key, name)
                                                       : joined(collection.key, name);
      inside(element, joined(collection.key, collection.placeholder),
             [&](Visitor& v) { collection.walk(name, v); });
    }
  }

 private:
  // The keys of a kind of model or optimizer that is refused itself.
  bool is_moot(std::string_view key) {
    if (!kind_is_missing_ || condition().empty()) return false;
    effects_.missing.back().moot.push_back(path_of(key));
    return true;
  }

  bool is_default(const Field& field, const Value& value) const {
    const auto found = defaults().find(key_id(field.key));
    DS_CHECK(found != defaults().end(), "effects: no default of {}", key_id(field.key));
    return same_content(found->second, value);
  }

  void judge_value(const Field& field, const Value& value) {
    if (field.spec.only.empty() || value.is_null() || is_listed(field.spec, value)) return;
    add_missing(field, fmt::format("{} as \"{}\"; available {} {}", kMissing, plain_text(value),
                                   field.spec.only.size() > 1 ? "are" : "is",
                                   fmt::join(field.spec.only, ", ")));
    if (condition().empty()) kind_is_missing_ = true;
  }

  void judge_fixed(const Field& field, const Value& value) {
    const bool so =
        field.spec.only.empty() ? is_default(field, value) : is_listed(field.spec, value);
    if (so) return;
    effects_.fixed.push_back(
        {path_of(field.key), fmt::format("has no effect here: {}", field.spec.here)});
  }

  void judge_missing(const Field& field, const Value& value) {
    const bool free_form = std::holds_alternative<Value*>(field.slot);
    if (free_form ? !is_used(value, field.spec)
                  : is_default(field, value) || is_listed(field.spec, value)) {
      return;
    }
    add_missing(field, std::string(kMissing));
  }

  void add_missing(const Field& field, std::string message) {
    const std::string path = path_of(field.key);
    effects_.missing.push_back({path, std::move(message), {feature_.empty() ? path : feature_}});
  }

  Effects effects_;
  std::string feature_;  // the section that is one feature, whose keys are refused one by one
  bool kind_is_missing_ = false;
};

}  // namespace

Effects effects_of(const Config& config) {
  Config walked = config;
  EffectWalker walker;
  fields(walker, walked);
  return walker.take();
}

std::vector<std::string> keys_with_missing_features() {
  std::vector<std::string> keys;
  for (const CatalogueEntry& entry : catalogue()) {
    const bool field = entry.kind == EntryKind::kField;
    const bool some = field && (entry.effect == Effect::kNotYet ||
                                (entry.effect == Effect::kUsed && !entry.only.empty()));
    const bool whole = entry.kind == EntryKind::kSection && entry.effect == Effect::kNotYet &&
                       (entry.optional_section || !entry.off.empty());
    if ((some || whole) && !entry.within_missing) keys.push_back(entry.path);
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

}  // namespace ds
