// The JSON Schema against the catalogue, key by key: every key stands where it belongs, with its
// default, its bounds, its names and what it does here; and nothing else is let in.
#include <fmt/format.h>

#include <functional>
#include <set>
#include <sstream>

#include "config/catalogue.h"
#include "config/explain/schema.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

// The objects that a schema may describe: itself, its alternatives and what its conditions add.
void each_part(const Value& schema, const std::function<void(const Value&)>& on_part) {
  on_part(schema);
  if (const Value* parts = schema.find("anyOf")) {
    for (const Value& part : parts->items()) each_part(part, on_part);
  }
  if (const Value* blocks = schema.find("allOf")) {
    for (const Value& block : blocks->items()) {
      if (const Value* then = block.find("then")) each_part(*then, on_part);
    }
  }
}

// All schemas that a member of this name may have.
std::vector<const Value*> members_of(const std::vector<const Value*>& schemas,
                                     const std::string& name) {
  std::vector<const Value*> out;
  const auto add = [&](const Value& part) {
    const bool free = name.starts_with('<');
    const Value* properties = part.find("properties");
    const Value* member = free         ? part.find("additionalProperties")
                          : properties ? properties->find(name)
                                       : nullptr;
    if (member) out.push_back(member);
  };
  for (const Value* schema : schemas) each_part(*schema, add);
  return out;
}

std::vector<const Value*> elements_of(const std::vector<const Value*>& schemas) {
  std::vector<const Value*> out;
  for (const Value* schema : schemas) {
    each_part(*schema, [&](const Value& part) {
      if (const Value* items = part.find("items")) out.push_back(items);
    });
  }
  return out;
}

// The schemas of a path of the catalogue; none where it is not there.
std::vector<const Value*> schemas_at(const Value& root, const std::string& path) {
  std::vector<const Value*> at = {&root};
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    const bool list = key.ends_with("[]");
    if (list) key.resize(key.size() - 2);
    if (!key.empty()) at = members_of(at, key);
    if (list) at = elements_of(at);
  }
  return at;
}

// Whether any part of any of the schemas has this member with this value.
bool any_has(const std::vector<const Value*>& schemas, std::string_view key, const Value& value) {
  bool found = false;
  for (const Value* schema : schemas) {
    each_part(*schema, [&](const Value& part) {
      const Value* member = part.find(key);
      found = found || (member && same_content(*member, value));
    });
  }
  return found;
}

}  // namespace

TEST_CASE("every key of the catalogue stands in the schema, with its meaning and default",
          "[config]") {
  const Value schema = json_schema();
  size_t fields = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == EntryKind::kRest) continue;
    const auto found = schemas_at(schema, entry.path);
    CAPTURE(entry.path, entry.condition);
    REQUIRE_FALSE(found.empty());
    if (entry.kind != EntryKind::kField) continue;
    ++fields;
    CHECK(any_has(found, "description",
                  Value::string(fmt::format("{} Here: {}.", entry.meaning, entry.effect_text))));
    if (!entry.default_value.is_null() && !entry.required) {
      CHECK(any_has(found, "default", entry.default_value));
    }
  }
  CHECK(fields > 600);
}

TEST_CASE("bounds of the schema are those of the fields", "[config]") {
  const Value schema = json_schema();
  size_t bounds = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind != EntryKind::kField || entry.range.empty()) continue;
    std::istringstream range(entry.range);
    std::string sign, number;
    while (range >> sign >> number) {
      const std::string_view key = sign == ">="   ? "minimum"
                                   : sign == ">"  ? "exclusiveMinimum"
                                   : sign == "<=" ? "maximum"
                                                  : "exclusiveMaximum";
      bool found = false;
      auto at = schemas_at(schema, entry.path);
      const auto elements = elements_of(at);
      at.insert(at.end(), elements.begin(), elements.end());
      found = any_has(at, key, Value::number(std::stod(number)));
      CAPTURE(entry.path, entry.range, key);
      CHECK(found);
      ++bounds;
    }
  }
  CHECK(bounds > 200);
}

TEST_CASE("older names stand in the schema as deprecated", "[config]") {
  const Value schema = json_schema();
  size_t names = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    const size_t dot = entry.path.rfind('.');
    for (const std::string& synonym : entry.synonyms) {
      const std::string path =
          (dot == std::string::npos ? "" : entry.path.substr(0, dot + 1)) + synonym;
      CAPTURE(path);
      CHECK(any_has(schemas_at(schema, path), "deprecated", Value::boolean(true)));
      ++names;
    }
    if (entry.kind == EntryKind::kRetired) {
      CAPTURE(entry.path);
      CHECK(any_has(schemas_at(schema, entry.path), "deprecated", Value::boolean(true)));
      ++names;
    }
  }
  CHECK(names > 10);
}

TEST_CASE("every enumerator can be written as the schema says", "[config]") {
  const Value schema = json_schema();
  size_t tried = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind != EntryKind::kField) continue;
    for (const std::string& name : entry.enum_names) {
      bool found = false;
      for (const Value* one : schemas_at(schema, entry.path)) {
        each_part(*one, [&](const Value& part) {
          if (const Value* list = part.find("enum")) {
            for (const Value& item : list->items()) found = found || item.as_string() == name;
          }
          const Value* pattern = part.find("pattern");
          if (!pattern) return;
          // "^[Aa][Dd]...$" holds the letter itself first.
          std::string letters;
          for (const char c : pattern->as_string()) {
            if (c == '[')
              letters += '[';
            else if (c == ']')
              letters.erase(letters.size() - 1);
            else
              letters += c;
          }
          std::string first;
          for (size_t i = 0; i < letters.size(); ++i) {
            if (letters[i] == '[' && i + 1 < letters.size()) {
              first += letters[++i];
            } else if (letters[i] != '^' && letters[i] != '$') {
              first += letters[i];
            }
          }
          found = found || first == name;
        });
      }
      CAPTURE(entry.path, name);
      CHECK(found);
      ++tried;
    }
  }
  CHECK(tried > 60);
}

TEST_CASE("objects let nothing in that they do not name, but those that keep the rest",
          "[config]") {
  const Value schema = json_schema();
  std::set<std::string> open;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == EntryKind::kRest) {
      open.insert(entry.path.substr(0, entry.path.rfind('.')));
    }
  }
  CHECK(same_content(*schema.find("unevaluatedProperties"), Value::boolean(false)));
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind != EntryKind::kSection) continue;
    CAPTURE(entry.path);
    const bool closed =
        any_has(schemas_at(schema, entry.path), "unevaluatedProperties", Value::boolean(false));
    CHECK(closed == !open.contains(entry.path));
  }
}

TEST_CASE("short forms of sections and includes stand in the schema", "[config]") {
  const Value schema = json_schema();
  CHECK(any_has(schemas_at(schema, "model"), "type", Value::string("string")));
  CHECK(any_has(schemas_at(schema, "zero_optimization"), "type", Value::string("boolean")));
  CHECK(any_has(schemas_at(schema, "include"), "type", Value::string("array")));
  CHECK(schema.find("$schema")->as_string() == "https://json-schema.org/draft/2020-12/schema");
}

}  // namespace ds
