#include "config/unknown_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "config/catalogue.h"
#include "config/ignored_keys.h"
#include "config/reader/nearest.h"

namespace ds {

namespace {

// These are the places where a key of this very name exists.
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
      {"micro_batch_per_gpu", "train_micro_batch_size_per_gpu"},
      {"optimizer.params.learning_rate", "lr"},
  };
  const auto found =
      kNames.find(section.empty() ? std::string(key) : fmt::format("{}.{}", section, key));
  return found == kNames.end() ? "" : found->second;
}

}  // namespace

std::string unknown_key_text(std::string_view section, std::string_view key,
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

bool is_passed_over(std::string_view section, std::string_view key,
                    const std::vector<std::string>& siblings) {
  return who_reads_past(section) && slip_of_key(key, siblings).empty();
}

UnknownKey unknown_key(std::string_view section, std::string_view key,
                       const std::vector<std::string>& siblings) {
  std::string text = unknown_key_text(section, key, siblings);
  if (!is_passed_over(section, key, siblings)) return {Severity::kError, std::move(text)};
  const std::string_view by = who_reads_past(section).value_or("");
  return {Severity::kNote, fmt::format("is ignored, as by {}: {}", by, text)};
}

}  // namespace ds
