#include "launcher/inventory/inventory_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/reader/value.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

std::string with_blanks(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

std::string value_text(const Fact& fact) {
  struct Text {
    FactUnit unit;
    std::string operator()(std::monostate) const { return "unknown"; }
    std::string operator()(bool value) const { return value ? "yes" : "no"; }
    std::string operator()(int64_t value) const {
      return unit == FactUnit::kBytes ? format_bytes(value) : std::to_string(value);
    }
    std::string operator()(const std::string& value) const { return value; }
  };
  const std::string text = std::visit(Text{fact.unit}, fact.value);
  return fact.note.empty() ? text : fmt::format("{} ({})", text, fact.note);
}

Value value_json(const Fact& fact) {
  struct Json {
    Value operator()(std::monostate) const { return Value::null(); }
    Value operator()(bool value) const { return Value::boolean(value); }
    Value operator()(int64_t value) const { return Value::integer(value); }
    Value operator()(const std::string& value) const { return Value::string(value); }
  };
  return std::visit(Json{}, fact.value);
}

// Lines of columns, each as wide as its widest entry but the last.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    out += " ";
    for (size_t i = 0; i < row.size(); ++i) {
      out += i + 1 < row.size() ? fmt::format(" {:<{}} ", row[i], widths[i]) : " " + row[i];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

std::string found_text(const LibraryFact& library) {
  if (!library.missing.empty()) return "not found";
  return library.version.value_or("found, version unknown");
}

// Says where an unused library lies, and why nothing could be called of it.
std::string place_text(const LibraryFact& library) {
  if (library.unusable.empty()) return library.file;
  if (library.unusable.find(library.file) != std::string::npos) return library.unusable;
  return fmt::format("{} ({})", library.file, library.unusable);
}

Value library_json(const LibraryFact& library) {
  Value out = Value::object();
  out.set("name", Value::string(library.name));
  out.set("used", Value::boolean(library.use == LibraryUse::kBuiltIn));
  out.set("found", Value::boolean(library.missing.empty()));
  out.set("version", library.version ? Value::string(*library.version) : Value::null());
  out.set("purpose", Value::string(library.purpose));
  if (!library.file.empty()) out.set("file", Value::string(library.file));
  if (!library.missing.empty()) out.set("why", Value::string(library.missing));
  if (!library.unusable.empty()) out.set("unusable", Value::string(library.unusable));
  return out;
}

Value interface_json(const InterfaceFact& interface) {
  std::vector<Value> addresses;
  for (const std::string& address : interface.addresses)
    addresses.push_back(Value::string(address));
  Value out = Value::object();
  out.set("name", Value::string(interface.name));
  out.set("addresses", Value::list(std::move(addresses)));
  out.set("megabits", interface.megabits ? Value::integer(*interface.megabits) : Value::null());
  return out;
}

Value feature_json(const FeatureFact& feature) {
  Value out = Value::object();
  out.set("name", Value::string(feature.name));
  out.set("needs", Value::string(feature.needs));
  out.set("has", feature.has ? Value::boolean(*feature.has) : Value::null());
  out.set("how", Value::string(feature.how));
  return out;
}

template <class Entry>
Value list_json(const std::vector<Entry>& entries, Value (*as_json)(const Entry&)) {
  std::vector<Value> out;
  for (const Entry& entry : entries) out.push_back(as_json(entry));
  return Value::list(std::move(out));
}

}  // namespace

std::string inventory_text(const Inventory& inventory) {
  std::string out;
  for (const FactGroup& group : inventory.groups) {
    std::vector<std::vector<std::string>> rows;
    for (const Fact& fact : group.facts) rows.push_back({with_blanks(fact.key), value_text(fact)});
    out += with_blanks(group.key) + "\n" + aligned(rows);
  }
  std::vector<std::vector<std::string>> rows;
  for (const InterfaceFact& interface : inventory.network) {
    const std::string speed =
        interface.megabits ? fmt::format("{} Mbit/s", *interface.megabits) : "speed unknown";
    rows.push_back(
        {interface.name, speed, fmt::format("{}", fmt::join(interface.addresses, ", "))});
  }
  out += "network\n" + aligned(rows);
  for (const LibraryUse use : {LibraryUse::kBuiltIn, LibraryUse::kUnused}) {
    rows.clear();
    for (const LibraryFact& library : inventory.libraries) {
      if (library.use == use)
        rows.push_back(
            {library.name, found_text(library), "for " + library.purpose, place_text(library)});
    }
    out += use == LibraryUse::kBuiltIn ? "libraries in use\n"
                                       : "libraries on this machine that this build does not use\n";
    out += aligned(rows);
  }
  rows.clear();
  for (const FeatureFact& feature : inventory.features) {
    const char* const has = !feature.has ? "unknown" : *feature.has ? "yes" : "no";
    rows.push_back({has, feature.name, feature.needs, feature.how});
  }
  out += "features: what each needs, and how to get it\n" + aligned(rows);
  return out + fmt::format(
                   "{} keys of train.json have values that this build refuses by name; --json "
                   "lists them\n",
                   inventory.missing_keys.size());
}

std::string inventory_json(const Inventory& inventory) {
  Value out = Value::object();
  for (const FactGroup& group : inventory.groups) {
    Value entries = Value::object();
    for (const Fact& fact : group.facts) {
      entries.set(fact.key, value_json(fact));
      if (!fact.note.empty()) entries.set(fact.key + "_note", Value::string(fact.note));
    }
    out.set(group.key, std::move(entries));
  }
  out.set("network", list_json(inventory.network, interface_json));
  out.set("libraries", list_json(inventory.libraries, library_json));
  out.set("features", list_json(inventory.features, feature_json));
  std::vector<Value> keys;
  for (const std::string& key : inventory.missing_keys) keys.push_back(Value::string(key));
  out.set("missing_keys", Value::list(std::move(keys)));
  return to_json(out);
}

}  // namespace ds
