#include "config/explain/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/config.h"
#include "config/reader/condition.h"
#include "config/reader/convert.h"

namespace ds {

namespace {

Value text(std::string_view s) { return Value::string(std::string(s)); }

Value strings(std::initializer_list<std::string_view> items) {
  Value list = Value::list();
  for (const std::string_view item : items) list.items().push_back(text(item));
  return list;
}

Value typed(std::string_view type) {
  Value schema = Value::object();
  schema.set("type", text(type));
  return schema;
}

void add_bounds(const Spec& spec, Value& schema) {
  const auto add = [&](std::string_view key, const std::optional<double>& bound) {
    if (bound) schema.set(key, Value::number(*bound));
  };
  add("minimum", spec.min);
  add("exclusiveMinimum", spec.above);
  add("maximum", spec.max);
  add("exclusiveMaximum", spec.below);
}

// "Adam" -> "^[Aa][Dd][Aa][Mm]$": JSON Schema has no switch for ignoring case.
std::string any_case_pattern(std::string_view name) {
  std::string out = "^";
  for (const char c : name) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool upper = c >= 'A' && c <= 'Z';
    const char other = lower ? static_cast<char>(c - 32) : static_cast<char>(c + 32);
    out += lower || upper ? fmt::format("[{}{}]", c, other) : std::string(1, c);
  }
  return out + "$";
}

Value name_schema(std::string_view name, LetterCase letter_case) {
  Value schema = Value::object();
  if (letter_case == LetterCase::kExact) {
    schema.set("const", text(name));
  } else {
    schema.set("type", text("string"));
    schema.set("pattern", text(any_case_pattern(name)));
  }
  return schema;
}

// The schema of a field's value without "auto" and null.
struct SlotSchema {
  const Spec& spec;

  Value operator()(const bool*) const { return typed("boolean"); }
  Value operator()(const int64_t*) const { return bounded(typed("integer")); }
  Value operator()(const double*) const { return bounded(typed("number")); }
  Value operator()(const std::string*) const { return typed("string"); }
  Value operator()(const Value*) const {
    return spec.object_only ? any_of({typed("object"), typed("null")}) : Value::object();
  }
  Value operator()(const Pair*) const {
    Value schema = list_of(bounded(typed("number")));
    schema.set("minItems", Value::integer(2));
    schema.set("maxItems", Value::integer(2));
    return schema;
  }
  template <class T>
  Value operator()(const std::vector<T>*) const {
    const Value item = (*this)(static_cast<const T*>(nullptr));
    if (!spec.one_or_list) return list_of(item);
    return any_of({item, list_of(item)});
  }
  template <class T>
  Value operator()(const std::optional<T>*) const {
    const Value schema = (*this)(static_cast<const T*>(nullptr));
    if (spec.refuse_null || spec.required) return schema;
    return any_of({schema, typed("null")});
  }
  Value operator()(const EnumRef& e) const {
    std::vector<Value> names;
    if (spec.letter_case == LetterCase::kExact) {
      Value list = Value::list();
      for (const EnumName& name : e.names()) list.items().push_back(text(name.name));
      Value schema = Value::object();
      schema.set("enum", std::move(list));
      names.push_back(std::move(schema));
    } else {
      for (const EnumName& name : e.names()) {
        names.push_back(name_schema(name.name, spec.letter_case));
      }
    }
    if (e.nullable()) names.push_back(typed("null"));
    return any_of(std::move(names));
  }

  static Value any_of(std::vector<Value> schemas) {
    if (schemas.size() == 1) return schemas[0];
    Value schema = Value::object();
    schema.set("anyOf", Value::list(std::move(schemas)));
    return schema;
  }

 private:
  Value bounded(Value schema) const {
    add_bounds(spec, schema);
    return schema;
  }
  static Value list_of(Value item) {
    Value schema = typed("array");
    schema.set("items", std::move(item));
    return schema;
  }
};

// One object under construction: its plain properties, and one block per condition.
class SchemaWriter : public Visitor {
 public:
  bool describes() const override { return true; }

  Value object_schema(const std::function<void(Visitor&)>& walk) {
    Level outer = std::exchange(level_, Level{});
    walk(*this);
    Level built = std::exchange(level_, std::move(outer));
    Value schema = typed("object");
    schema.set("properties", std::move(built.properties));
    if (!built.required.items().empty()) schema.set("required", std::move(built.required));
    if (!built.conditions.items().empty()) schema.set("allOf", std::move(built.conditions));
    if (!built.open) schema.set("unevaluatedProperties", Value::boolean(false));
    return schema;
  }

  void on_field(const Field& field) override {
    if (std::holds_alternative<EnumRef>(field.slot)) {
      level_.choices.push_back({std::string(field.key), field.spec.letter_case, field.spec.only});
    }
    Value schema = std::visit(SlotSchema{field.spec}, field.slot);
    if (!std::holds_alternative<Value*>(field.slot) && !field.spec.required) {
      Value automatic = Value::object();
      automatic.set("const", text("auto"));
      schema = SlotSchema::any_of({std::move(schema), std::move(automatic)});
    }
    schema.set("description",
               text(fmt::format("{} Here: {}.", field.spec.meaning,
                                within_missing_ ? "not yet" : effect_text(field.spec))));
    const Value present = field_value(field);
    if (!present.is_null() && !field.spec.required) schema.set("default", present);
    for (const std::string_view synonym : field.spec.synonyms) {
      Value old = schema;
      old.set("deprecated", Value::boolean(true));
      properties().set(synonym, std::move(old));
    }
    if (field.spec.required) required().items().push_back(text(field.key));
    properties().set(field.key, std::move(schema));
  }

  void on_section(const Section& section) override {
    const bool outer =
        std::exchange(within_missing_, within_missing_ || is_one_missing_feature(section));
    Value schema = object_schema(section.walk);
    within_missing_ = outer;
    if (section.optional) schema.set("type", strings({"object", "null"}));
    schema.set("description", text(section.spec.meaning));
    properties().set(section.key, std::move(schema));
  }

  void on_collection(const Collection& collection) override {
    Value element = object_schema(collection.walk_default);
    Value schema = collection.is_list() ? typed("array") : typed("object");
    schema.set(collection.is_list() ? "items" : "additionalProperties", std::move(element));
    schema.set("description", text(collection.spec.meaning));
    properties().set(collection.key, std::move(schema));
  }

  void on_retired(const Retired& retired) override {
    Value schema = Value::object();
    schema.set("deprecated", Value::boolean(true));
    schema.set("description",
               text(fmt::format("{} Now: {}.", retired.meaning, retired.replacement)));
    properties().set(retired.key, std::move(schema));
  }

  void on_rest(const Rest&) override { level_.open = true; }

  // "KEY is A or B" becomes {"if": KEY is one of them, "then": these properties}.
  void enter_condition(std::string_view text) override {
    const Condition condition(text);
    const std::string_view key = condition.key;
    const auto known = std::ranges::find(level_.choices, key, &Choice::key);
    const Choice choice = known == level_.choices.end() ? Choice{} : *known;
    std::vector<Value> names;
    for (const std::string_view name : condition.values) {
      names.push_back(name_schema(name, choice.letter_case));
    }
    // The default of the discriminator applies where it is absent.
    Value property = Value::object();
    property.set(key, SlotSchema::any_of(std::move(names)));
    Value test = Value::object();
    test.set("properties", std::move(property));
    if (!default_holds(condition)) test.set("required", strings({key}));
    level_.test = std::move(test);
    level_.conditional = Value::object();
    level_.in_condition = true;
    level_.outer_missing =
        std::exchange(within_missing_, within_missing_ || condition.is_missing(choice.only));
  }

  void leave_condition() override {
    Value then = Value::object();
    then.set("properties", std::move(level_.conditional));
    Value block = Value::object();
    block.set("if", std::move(level_.test));
    block.set("then", std::move(then));
    level_.conditions.items().push_back(std::move(block));
    level_.in_condition = false;
    within_missing_ = level_.outer_missing;
  }

 private:
  struct Choice {
    std::string key;
    LetterCase letter_case = LetterCase::kExact;
    std::vector<std::string_view> only;
  };
  struct Level {
    Value properties = Value::object();
    Value required = Value::list();
    Value conditions = Value::list();
    bool open = false;
    bool in_condition = false;
    Value test;
    Value conditional;
    std::vector<Choice> choices;  // enum fields seen so far
    bool outer_missing = false;   // within_missing_ outside of the condition
  };

  Value& properties() { return level_.in_condition ? level_.conditional : level_.properties; }
  Value& required() { return level_.required; }

  bool default_holds(const Condition& condition) const {
    const Value* property = level_.properties.find(condition.key);
    const Value* value = property ? property->find("default") : nullptr;
    return value && value->is_string() && condition.has(value->as_string());
  }

  Level level_;
  bool within_missing_ = false;  // of a feature or kind that this build lacks
};

// Spellings that config/reader/rewrite.h turns into the sections' own form.
void add_short_forms(Value& schema) {
  const auto also = [&](std::string_view key, std::string_view type) {
    Value& section = *schema.find("properties")->find(key);
    Value both = Value::object();
    both.set("anyOf", Value::list({section, typed(type)}));
    section = std::move(both);
  };
  also("model", "string");
  also("zero_optimization", "boolean");
  Value include = Value::object();
  Value paths = typed("array");
  paths.set("items", typed("string"));
  include.set("anyOf", Value::list({typed("string"), std::move(paths)}));
  include.set("description", text("Files merged below this one; this file wins."));
  schema.find("properties")->set("include", std::move(include));
}

}  // namespace

Value json_schema() {
  Config config;
  SchemaWriter writer;
  Value body = writer.object_schema([&](Visitor& v) { fields(v, config); });
  add_short_forms(body);
  Value schema = Value::object();
  schema.set("$schema", text("https://json-schema.org/draft/2020-12/schema"));
  schema.set("title", text("dslaunch configuration"));
  for (Member& member : body.members()) schema.set(member.key, std::move(member.value));
  return schema;
}

}  // namespace ds
