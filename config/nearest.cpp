#include "config/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "config/catalogue.h"

namespace ds {

namespace {

constexpr size_t kLongest = 100;  // no key is near to longer names; keeps hostile input cheap
constexpr size_t kSlip = 2;

// Letters put in, left out, replaced, and neighbours exchanged, which is one slip of the fingers (optimal string
// alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  std::vector<size_t> above(row.size());
  std::vector<size_t> above_that(row.size());
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(above_that, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], above_that[j - 2] + 1);
    }
  }
  return row[b.size()];
}

struct Near {
  std::string name;
  size_t distance = SIZE_MAX;
};

Near nearest_of(std::string_view name, const std::vector<std::string>& known) {
  Near near;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < near.distance) near = {candidate, distance};
  }
  return near;
}

std::set<std::string, std::less<>> words_of(std::string_view name) {
  std::set<std::string, std::less<>> words;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('_', begin), name.size());
    if (end > begin) words.emplace(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The shortest of the names that have all words of this one.
std::string with_all_words(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kShortest = 4;  // shorter ones stand in too many names
  if (name.size() < kShortest) return "";
  const auto words = words_of(name);
  std::string best;
  for (const std::string& candidate : known) {
    const auto theirs = words_of(candidate);
    const bool has_all = std::includes(theirs.begin(), theirs.end(), words.begin(), words.end());
    if (has_all && (best.empty() || candidate.size() < best.size())) best = candidate;
  }
  return best;
}

// Where a key of this very name exists.
struct Places {
  std::vector<std::string> conditions;  // of the section itself
  std::vector<std::string> sections;    // others
};

void add_new(std::vector<std::string>& texts, std::string text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

Places places_of(std::string_view section, std::string_view key) {
  static const std::vector<CatalogueEntry> kEntries = catalogue();
  Places places;
  for (const CatalogueEntry& entry : kEntries) {
    const std::string_view path = entry.path;
    const size_t dot = path.rfind('.');
    const std::string_view holder = dot == path.npos ? "" : path.substr(0, dot);
    if (entry.kind == EntryKind::kRetired || path.find_first_of("<[") != path.npos ||
        path.substr(dot == path.npos ? 0 : dot + 1) != key) {
      continue;
    }
    if (holder == section) {
      if (!entry.condition.empty()) add_new(places.conditions, entry.condition);
    } else {
      add_new(places.sections, holder.empty() ? "the top level" : std::string(holder));
    }
  }
  return places;
}

// What has another name here than in other trainers (Hugging Face's TrainingArguments, Megatron).
std::string_view foreign_name(std::string_view section, std::string_view key) {
  static const std::map<std::string_view, std::string_view> kNames{
      {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
      {"global_batch_size", "train_batch_size"},
      {"num_train_epochs", "train.epochs"},
      {"max_steps", "train.steps"},
      {"train_iters", "train.steps"},
      {"learning_rate", "optimizer.params.lr"},
      {"warmup_steps", "scheduler.params.warmup_num_steps"},
      {"lr_scheduler_type", "scheduler.type"},
      {"max_grad_norm", "gradient_clipping"},
      {"clip_grad", "gradient_clipping"},
      {"optimizer.params.learning_rate", "lr"},
  };
  const auto found =
      kNames.find(section.empty() ? std::string(key) : fmt::format("{}.{}", section, key));
  return found == kNames.end() ? "" : found->second;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongest) return "";
  const Near near = nearest_of(name, known);
  if (near.distance <= std::min(kSlip, (name.size() + 1) / 2)) return near.name;
  const std::string longer = with_all_words(name, known);
  if (!longer.empty()) return longer;
  return near.distance <= name.size() / 3 ? near.name : "";
}

std::string misspelt_name(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongest) return "";
  const Near near = nearest_of(name, known);
  return near.distance <= name.size() / 4 ? near.name : "";
}

std::string unknown_key(std::string_view section, std::string_view key,
                        const std::vector<std::string>& siblings) {
  const Places places = places_of(section, key);
  constexpr size_t kMost = 3;  // more of them say nothing
  if (!places.conditions.empty()) {
    return places.conditions.size() > kMost
               ? std::string("has a meaning with another type only")
               : fmt::format("has a meaning only where {}", fmt::join(places.conditions, ", or "));
  }
  if (!places.sections.empty() && places.sections.size() <= kMost) {
    return fmt::format("unknown key here, it belongs in {}", fmt::join(places.sections, " or "));
  }
  const std::string_view foreign = foreign_name(section, key);
  if (!foreign.empty()) return fmt::format("unknown key, here it is \"{}\"", foreign);
  const std::string nearest = nearest_name(key, siblings);
  if (nearest.empty()) return "unknown key";
  return fmt::format("unknown key, did you mean \"{}\"?", nearest);
}

}  // namespace ds
