#include "config/explain/key_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "config/reader/condition.h"
#include "config/reader/convert.h"

namespace ds {

namespace {

// One text, and the entries that have it.
struct Variant {
  std::string text;
  KeyEntries entries;
};

template <class TextOf>
std::vector<Variant> variants_of(const KeyEntries& entries, const TextOf& text_of) {
  std::vector<Variant> variants;
  for (const CatalogueEntry* entry : entries) {
    std::string text = text_of(*entry);
    const auto same = std::ranges::find(variants, text, &Variant::text);
    if (same != variants.end()) {
      same->entries.push_back(entry);
    } else {
      variants.push_back({std::move(text), {entry}});
    }
  }
  return variants;
}

// "name: text", or below the name one line for each text. Without a name the texts alone.
template <class TextOf>
std::string property(std::string_view name, const KeyEntries& entries, const TextOf& text_of) {
  std::vector<Variant> variants = variants_of(entries, text_of);
  const std::string title = name.empty() ? "" : fmt::format("{}:", name);
  if (variants.size() == 1) {
    return fmt::format("{}{}{}\n", title, title.empty() ? "" : " ", variants.front().text);
  }
  std::string out = title.empty() ? "" : title + "\n";
  for (Variant& variant : variants) {
    const bool sentence = variant.text.ends_with('.');
    if (sentence) variant.text.back() = ',';
    out += fmt::format("  {} where {}\n", variant.text, conditions_text(variant.entries));
  }
  return out;
}

}  // namespace

std::string conditions_text(const KeyEntries& entries) {
  struct Choice {
    std::string_view key;
    std::vector<std::string_view> values;
  };
  std::vector<Choice> choices;
  for (const CatalogueEntry* entry : entries) {
    if (entry->condition.empty()) return "";
    const Condition condition(entry->condition);
    auto choice = std::ranges::find(choices, condition.key, &Choice::key);
    if (choice == choices.end()) choice = choices.insert(choice, {condition.key, {}});
    for (const std::string_view value : condition.values) {
      const bool is_known = std::ranges::find(choice->values, value) != choice->values.end();
      if (!is_known) choice->values.push_back(value);
    }
  }
  std::vector<std::string> texts;
  for (const Choice& choice : choices) {
    texts.push_back(fmt::format("{} is {}", choice.key, fmt::join(choice.values, " or ")));
  }
  return fmt::format("{}", fmt::join(texts, ", or "));
}

std::string type_of(const CatalogueEntry& entry) {
  return fmt::format("{}{}{}", entry.type, entry.range.empty() ? "" : ", ", entry.range);
}

std::string default_of(const CatalogueEntry& entry) {
  if (entry.required) return "none, it is required";
  return entry.default_value.is_null() && !entry.unset_meaning.empty()
             ? entry.unset_meaning
             : to_compact_json(without_brackets(entry.default_value));
}

std::string key_text(const KeyEntries& entries) {
  std::string out =
      property("", entries, [](const CatalogueEntry& entry) { return entry.meaning; });
  const CatalogueEntry& first = *entries.front();
  if (!first.replacement.empty()) out += fmt::format("now: {}\n", first.replacement);
  if (first.kind != EntryKind::kField) return out;
  out += property("type", entries, type_of);
  out += property("default", entries, default_of);
  out += property("here", entries, [](const CatalogueEntry& entry) { return entry.effect_text; });
  return out;
}

}  // namespace ds
