// Every key that the configuration knows, in order, as one flat list: what the documentation, the
// schema, `explain` and the tests go through. Built by a visitor, so nothing is written down twice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/reader/fields.h"
#include "config/reader/value.h"

namespace ds {

struct Config;

enum class EntryKind { kField, kSection, kCollection, kRetired, kRest };

struct CatalogueEntry {
  EntryKind kind = EntryKind::kField;
  std::string path;       // free names as <group>, list elements as []
  std::string condition;  // "type is Adam or AdamW"; empty when always there
  std::string type;       // in words
  std::string range;      // ">= 0, < 1"; empty without bounds
  std::string meaning;
  std::string unset_meaning;        // what absence means where there is no default
  Effect effect = Effect::kNotYet;  // of sections as SectionSpec::effect
  std::string effect_text;          // in words; of fields and missing features only
  std::vector<std::string> only;    // as Spec::only
  std::string off;                  // of a section: "enabled is false"
  Value default_value;              // null for sections and fields without a default
  std::vector<std::string> enum_names;
  std::vector<std::string> synonyms;  // last components
  std::string replacement;            // of a retired key
  bool required = false;
  bool within_missing = false;    // of a feature, or a kind of model or optimizer, that is missing
  bool optional_section = false;  // absent and empty differ
};

std::vector<CatalogueEntry> catalogue();

// Returns those of these entries that `config` has: parameters of its own optimizer and schedule,
// sizes of its own family. Defaults are the same.
std::vector<CatalogueEntry> catalogue_of(const Config& config);

// The entry of a concrete path ("compression_training.row_pruning.different_groups.g1.modules",
// also with an older name as last component), or null. Of several conditions the first is taken.
const CatalogueEntry* find_entry(const std::vector<CatalogueEntry>& entries, std::string_view path);

// All of them: one for each condition that the key exists under.
std::vector<const CatalogueEntry*> find_entries(const std::vector<CatalogueEntry>& entries,
                                                std::string_view path);

// The concrete path with the current name as last component; the path itself when it is unknown.
std::string current_name(const std::vector<CatalogueEntry>& entries, std::string_view path);

// One number of a list, which stands for every parameter group, as a user writes it; any other
// value as it is.
Value without_brackets(const Value& value);

}  // namespace ds
