#include "config/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/automatic.h"
#include "config/batch.h"
#include "config/catalogue.h"
#include "config/elastic_batch.h"
#include "config/elastic_options.h"
#include "config/explain/key_text.h"
#include "config/reader/convert.h"
#include "config/reader/nearest.h"
#include "config/reader/secret_keys.h"
#include "core/status/error.h"

namespace ds {

namespace {

class Explainer : public Visitor {
 public:
  explicit Explainer(const Origins& origins) : origins_(origins) {}
  bool only_effective() const override { return true; }
  std::vector<ExplainedValue> take() { return std::move(rows_); }

  void on_field(const Field& field) override {
    Value value = field_value(field);
    if (value.is_null() && field.spec.omit_unset) return;
    value = shown(field.key, value);
    const Value plain = field.spec.one_or_list ? without_brackets(value) : value;
    ExplainedValue row{path_of(field.key), to_compact_json(plain), "default"};
    if (value.is_null() && !field.spec.unset_text.empty()) {
      row.value = to_compact_json(Value::string(std::string(field.spec.unset_text)));
    }
    if (const auto given = origins_.find(row.path); given != origins_.end()) {
      row.origin = given->second.text();
    } else if (value.is_null() && !field.spec.unset_meaning.empty()) {
      row.origin = fmt::format("default: {}", field.spec.unset_meaning);
    }
    rows_.push_back(std::move(row));
  }

  void on_section(const Section& section) override {
    if (section.present()) inside(path_of(section.key), section.walk);
  }

  void on_collection(const Collection& collection) override {
    for (const std::string& name : collection.names()) {
      const std::string path = path_of(collection.key);
      inside(collection.is_list() ? fmt::format("{}[{}]", path, name)
                                  : fmt::format("{}.{}", path, name),
             [&](Visitor& v) { collection.walk(name, v); });
    }
  }

  void on_rest(const Rest& rest) override {
    for (const Member& member : rest.target.members()) {
      rows_.push_back({path_of(member.key), to_compact_json(shown(member.key, member.value)),
                       member.value.origin().text()});
    }
  }

 private:
  static Value shown(std::string_view key, const Value& value) {
    const Value instead = Value::string(std::string(kKeptSecret));
    if (value.is_null()) return value;
    return is_secret_key(key) ? instead : without_secrets(value, instead);
  }
  std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }
  void inside(const std::string& path, const std::function<void(Visitor&)>& walk) {
    const std::string outer = std::exchange(path_, path);
    walk(*this);
    path_ = outer;
  }

  const Origins& origins_;
  std::vector<ExplainedValue> rows_;
  std::string path_;
};

// The formula that fills each corner, "" for a corner that was given.
struct Formulas {
  std::string train, micro, accumulation;
};

Formulas formulas(const Config& c, const BatchSizes& s, int64_t ranks) {
  Formulas out;
  const bool train = c.train_batch_size.has_value();
  const bool micro = c.train_micro_batch_size_per_gpu.has_value();
  const bool steps = c.gradient_accumulation_steps.has_value();
  if (!train) {
    out.train = fmt::format(
        "derived: micro batch * accumulation steps * data-parallel ranks = {} * {} * {}", s.micro,
        s.accumulation, ranks);
  }
  if (!micro) {
    out.micro = fmt::format(
        "derived: train_batch_size / data-parallel ranks / accumulation steps = {} / {} / {}",
        s.train, ranks, s.accumulation);
  }
  if (!steps) {
    out.accumulation =
        train && micro ? fmt::format(
                             "derived: train_batch_size / micro batch / data-parallel ranks = {} / "
                             "{} / {}",
                             s.train, s.micro, ranks)
                       : std::string("default: 1, since it cannot be inferred");
  }
  return out;
}

void complete_batch(const Config& c, int64_t world, std::vector<ExplainedValue>& rows) {
  const auto set = [&](std::string_view path, const std::string& value, const std::string& origin) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const ExplainedValue& r) { return r.path == path; });
    if (row == rows.end() || origin.empty()) return;
    row->origin = origin;
    if (!value.empty()) row->value = value;
  };
  if (!c.train_batch_size && !c.train_micro_batch_size_per_gpu && !c.elasticity.enabled) {
    set("train_batch_size", "", "default: a run needs this or train_micro_batch_size_per_gpu");
    set("train_micro_batch_size_per_gpu", "", "default: a run needs this or train_batch_size");
    if (!c.gradient_accumulation_steps) {
      set("gradient_accumulation_steps", "1", "default: 1, since it cannot be inferred");
    }
    return;
  }
  Formulas origin;
  BatchSizes sizes;
  std::string failure;
  try {
    const int64_t ranks = data_ranks(c, world);
    if (c.elasticity.enabled) {
      sizes = elastic_batch_sizes(elastic_options(c.elasticity), ranks, BatchKeys::kAbsent);
      const std::string by = fmt::format("derived: elasticity with {} data-parallel ranks", ranks);
      origin = {by, by, by};
    } else {
      sizes = resolve_batch(c.train_batch_size, c.train_micro_batch_size_per_gpu,
                            c.gradient_accumulation_steps, ranks);
      origin = formulas(c, sizes, ranks);
    }
  } catch (const Error& error) {
    failure = fmt::format("not derived: {}", error.what());
    origin = {c.train_batch_size ? "" : failure, c.train_micro_batch_size_per_gpu ? "" : failure,
              c.gradient_accumulation_steps ? "" : failure};
  }
  const auto text = [&](int64_t n) { return failure.empty() ? std::to_string(n) : std::string(); };
  set("train_batch_size", text(sizes.train), origin.train);
  set("train_micro_batch_size_per_gpu", text(sizes.micro), origin.micro);
  set("gradient_accumulation_steps", text(sizes.accumulation), origin.accumulation);
}

// "train.json:3:14: \"auto\", " and why the value is what it is.
void explain_automatic(const ReadConfig& read, std::vector<ExplainedValue>& rows) {
  for (const AutomaticValue& found : automatic_values(read.document, read.config)) {
    const auto row = std::ranges::find(rows, found.path, &ExplainedValue::path);
    if (row == rows.end()) continue;
    const std::string place = found.origin.text();
    const bool derived = row->origin != place;  // from the batch sizes, which are settled here
    row->origin = fmt::format("{}: \"auto\", {}", place, derived ? row->origin : found.reason);
  }
}

std::string table(const std::vector<ExplainedValue>& rows) {
  constexpr size_t kWidestPath = 60;
  constexpr size_t kWidestValue = 24;
  size_t path_width = 0;
  size_t value_width = 0;
  for (const ExplainedValue& row : rows) {
    path_width = std::max(path_width, std::min(row.path.size(), kWidestPath));
    value_width = std::max(value_width, std::min(row.value.size(), kWidestValue));
  }
  std::string out;
  for (const ExplainedValue& row : rows) {
    out += fmt::format("{:<{}} = {:<{}}  ({})\n", row.path, path_width, row.value, value_width,
                       row.origin);
  }
  return out;
}

}  // namespace

std::vector<ExplainedValue> explain_all(const ReadConfig& read, int64_t ranks) {
  Explainer explainer(read.origins);
  Config config = read.config;
  fields(explainer, config);
  std::vector<ExplainedValue> rows = explainer.take();
  complete_batch(config, ranks, rows);
  explain_automatic(read, rows);
  return rows;
}

std::string explain_text(const ReadConfig& read, int64_t ranks) {
  static constexpr std::string_view kAlways[] = {"model",     "data",      "train",
                                                 "optimizer", "scheduler", "zero_optimization",
                                                 "bf16",      "checkpoint"};
  std::vector<ExplainedValue> shown;
  std::vector<std::string> hidden;
  for (ExplainedValue& row : explain_all(read, ranks)) {
    const std::string section = row.path.substr(0, row.path.find('.'));
    const bool always = section == row.path || std::find(std::begin(kAlways), std::end(kAlways),
                                                         section) != std::end(kAlways);
    if (always || read.origins.contains(section)) {
      shown.push_back(std::move(row));
    } else if (hidden.empty() || hidden.back() != section) {
      hidden.push_back(section);
    }
  }
  std::string out = table(shown);
  if (!hidden.empty()) {
    out += fmt::format("\nSections with defaults only: {}\n", fmt::join(hidden, ", "));
  }
  return out;
}

std::string explain_key(const ReadConfig& read, int64_t ranks, const std::string& key) {
  const std::vector<CatalogueEntry> told = entries_told(&read, key);
  const std::string path = current_name(told, key);
  std::vector<ExplainedValue> rows;
  for (ExplainedValue& row : explain_all(read, ranks)) {
    if (is_within(row.path, path)) rows.push_back(std::move(row));
  }
  std::string out = table(rows);
  const KeyEntries entries = find_entries(told, key);
  if (rows.empty()) {
    const std::string where = conditions_text(entries);
    out = fmt::format("{} has no value here{}\n", path,
                      where.empty() ? "" : fmt::format(" (it exists where {})", where));
  }
  return fmt::format("{}\n{}", out, key_text(entries));
}

std::string describe_key(const std::string& key) {
  const std::vector<CatalogueEntry> told = entries_told(nullptr, key);
  const std::string path = current_name(told, key);
  const KeyEntries entries = find_entries(told, key);
  const std::string where = conditions_text(entries);
  std::string out =
      fmt::format("{}{}\n\n{}", path, where.empty() ? "" : fmt::format(" (where {})", where),
                  key_text(entries));
  std::vector<ExplainedValue> rows;
  for (const CatalogueEntry& entry : told) {
    if (entry.kind != EntryKind::kField || entry.path == entries.front()->path) continue;
    rows.push_back({entry.path, default_of(entry),
                    entry.condition.empty()
                        ? type_of(entry)
                        : fmt::format("{}; where {}", type_of(entry), entry.condition)});
  }
  if (!rows.empty()) out += fmt::format("\n{}", table(rows));
  return out;
}

std::vector<CatalogueEntry> entries_told(const ReadConfig* read, const std::string& key) {
  const std::vector<CatalogueEntry> all = catalogue();
  const CatalogueEntry* known = find_entry(all, key);
  if (known == nullptr) {
    const std::string nearest = nearest_key(key);
    throw UsageError(
        fmt::format("explain: there is no key {}{}", key,
                    nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  const std::vector<CatalogueEntry> here = read ? catalogue_of(read->config) : all;
  const bool has_it = find_entry(here, key) != nullptr;
  std::vector<CatalogueEntry> told;
  for (const CatalogueEntry& entry : has_it ? here : all) {
    if (is_within(entry.path, known->path)) told.push_back(entry);
  }
  return told;
}

std::string nearest_key(const std::string& key) {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : catalogue()) names.push_back(entry.path);
  return nearest_name(key, names);
}

bool is_known_key(const std::string& key) { return find_entry(catalogue(), key) != nullptr; }

}  // namespace ds
