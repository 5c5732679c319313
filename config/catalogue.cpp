#include "config/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "config/config.h"
#include "config/reader/condition.h"
#include "config/reader/convert.h"

namespace ds {

namespace {

enum class Conditions { kAll, kThoseThatHold };

class Cataloguer : public Visitor {
 public:
  explicit Cataloguer(Conditions conditions) : all_(conditions == Conditions::kAll) {}
  bool describes() const override { return all_; }
  std::vector<CatalogueEntry> take() { return std::move(entries_); }

  void on_field(const Field& field) override {
    CatalogueEntry& entry = add(EntryKind::kField, field.key, field.spec.meaning);
    entry.type = type_text(field);
    entry.range = range_text(field.spec);
    entry.unset_meaning = field.spec.unset_meaning;
    entry.effect = field.spec.effect;
    entry.effect_text = effect_text(field.spec);
    if (within_missing_) entry.effect = Effect::kNotYet;
    if (within_missing_) entry.effect_text = "not yet";
    entry.only.assign(field.spec.only.begin(), field.spec.only.end());
    entry.required = field.spec.required;
    entry.default_value = field_value(field);
    for (const std::string_view synonym : field.spec.synonyms) entry.synonyms.emplace_back(synonym);
    if (const auto* e = std::get_if<EnumRef>(&field.slot)) {
      for (const EnumName& name : e->names()) entry.enum_names.emplace_back(name.name);
    }
  }

  void on_section(const Section& section) override {
    CatalogueEntry& entry = add(EntryKind::kSection, section.key, section.spec.meaning);
    entry.type = "object";
    entry.optional_section = section.optional;
    entry.effect = section.spec.effect;
    entry.off = section.spec.off;
    if (entry.effect == Effect::kNotYet) entry.effect_text = "not yet";
    const bool outer = within_missing_;
    within_missing_ = outer || is_one_missing_feature(section);
    inside(entry.path, section.walk);
    within_missing_ = outer;
  }

  void on_collection(const Collection& collection) override {
    CatalogueEntry& entry = add(EntryKind::kCollection, collection.key, collection.spec.meaning);
    entry.type = collection.is_list() ? "list of objects" : "object of named objects";
    const std::string element = collection.is_list()
                                    ? entry.path + "[]"
                                    : fmt::format("{}.{}", entry.path, collection.placeholder);
    inside(element, collection.walk_default);
  }

  void on_retired(const Retired& retired) override {
    CatalogueEntry& entry = add(EntryKind::kRetired, retired.key, retired.meaning);
    entry.replacement = retired.replacement;
    entry.type = "old spelling";
  }

  void on_rest(const Rest& rest) override {
    add(EntryKind::kRest, rest.placeholder, rest.meaning).type = "any";
  }

  void enter_condition(std::string_view condition) override {
    conditions_.emplace_back(condition, within_missing_);
    within_missing_ = within_missing_ || is_missing_kind(condition);
  }
  void leave_condition() override {
    within_missing_ = conditions_.back().second;
    conditions_.pop_back();
  }

 private:
  // "type is Muon", where the type has some of its values only.
  bool is_missing_kind(std::string_view text) const {
    const Condition condition(text);
    const auto kind = std::ranges::find(entries_, path_of(condition.key), &CatalogueEntry::path);
    return kind != entries_.end() && condition.is_missing(kind->only);
  }

  std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  CatalogueEntry& add(EntryKind kind, std::string_view key, std::string_view meaning) {
    CatalogueEntry& entry = entries_.emplace_back();
    entry.kind = kind;
    entry.path = path_of(key);
    entry.within_missing = within_missing_;
    entry.meaning = meaning;
    if (!conditions_.empty()) entry.condition = conditions_.back().first;
    return entry;
  }

  void inside(const std::string& path, const std::function<void(Visitor&)>& walk) {
    const std::string outer = std::exchange(path_, path);
    walk(*this);
    path_ = outer;
  }

  const bool all_;
  std::vector<CatalogueEntry> entries_;
  std::string path_;
  std::vector<std::pair<std::string, bool>> conditions_;  // and what within_missing_ was before
  bool within_missing_ = false;
};

std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t dot = path.find('.');
    out.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return out;
    path.remove_prefix(dot + 1);
  }
}

// "layer_specs[3]" as written in a path matches "layer_specs[]".
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.starts_with('<')) return true;
  if (!pattern.ends_with("[]")) return pattern == name;
  const size_t open = name.find('[');
  return name.ends_with(']') && open == pattern.size() - 2 &&
         pattern.substr(0, open) == name.substr(0, open);
}

// 0: no match, 1: through an older name, 2: exact.
int match(const CatalogueEntry& entry, const std::vector<std::string_view>& path) {
  const std::vector<std::string_view> pattern = components(entry.path);
  if (pattern.size() != path.size()) return 0;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (!matches(pattern[i], path[i])) return 0;
  }
  if (matches(pattern.back(), path.back())) return entry.kind == EntryKind::kRest ? 1 : 2;
  return std::find(entry.synonyms.begin(), entry.synonyms.end(), path.back()) !=
                 entry.synonyms.end()
             ? 1
             : 0;
}

}  // namespace

std::vector<CatalogueEntry> catalogue() {
  Config config;
  Cataloguer cataloguer(Conditions::kAll);
  fields(cataloguer, config);
  return cataloguer.take();
}

std::vector<CatalogueEntry> catalogue_of(const Config& config) {
  Config walked = config;
  Cataloguer present(Conditions::kThoseThatHold);
  fields(present, walked);
  std::set<std::pair<std::string, std::string>> known;
  for (const CatalogueEntry& entry : present.take()) known.emplace(entry.path, entry.condition);
  std::vector<CatalogueEntry> entries = catalogue();
  std::erase_if(entries, [&](const CatalogueEntry& entry) {
    return !known.contains({entry.path, entry.condition});
  });
  return entries;
}

const CatalogueEntry* find_entry(const std::vector<CatalogueEntry>& entries,
                                 std::string_view path) {
  const std::vector<std::string_view> parts = components(path);
  const CatalogueEntry* found = nullptr;
  for (const CatalogueEntry& entry : entries) {
    const int quality = match(entry, parts);
    if (quality == 2) return &entry;
    if (quality == 1 && !found) found = &entry;
  }
  return found;
}

std::vector<const CatalogueEntry*> find_entries(const std::vector<CatalogueEntry>& entries,
                                                std::string_view path) {
  const std::vector<std::string_view> parts = components(path);
  std::vector<const CatalogueEntry*> exact, other;
  for (const CatalogueEntry& entry : entries) {
    const int quality = match(entry, parts);
    if (quality == 2) exact.push_back(&entry);
    if (quality == 1) other.push_back(&entry);
  }
  return exact.empty() ? other : exact;
}

std::string current_name(const std::vector<CatalogueEntry>& entries, std::string_view path) {
  const CatalogueEntry* entry = find_entry(entries, path);
  if (!entry || entry->kind != EntryKind::kField) return std::string(path);
  const size_t last = path.rfind('.') + 1;
  const size_t entry_last = entry->path.rfind('.') + 1;
  return std::string(path.substr(0, last)) + entry->path.substr(entry_last);
}

Value without_brackets(const Value& value) {
  const bool single =
      value.is_list() && value.items().size() == 1 && !value.items().front().is_string();
  return single ? value.items().front() : value;
}

}  // namespace ds
