// What a configuration comes to, key by key, and where each value comes from: default,
// file:line:column, the command line, or the formula that derives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/catalogue.h"
#include "config/load.h"

namespace ds {

struct ExplainedValue {
  std::string path;
  std::string value;  // compact JSON
  // "train.json:3:14", "default", "train_batch_size / data-parallel ranks = 32 / 4",
  // "train.json:3:14: \"auto\", the default".
  std::string origin;
};

// Every effective field in order. `ranks` completes the batch triangle; where the
// numbers do not agree the missing ones stay null and their origin says why.
std::vector<ExplainedValue> explain_all(const ReadConfig& read, int64_t ranks);

// The rows a person wants to see: everything in sections that were given or that every run has.
std::string explain_text(const ReadConfig& read, int64_t ranks);

// One key or section: its rows, and for a key its meaning, type, bounds and default as the type,
// family or mode that is given has them. A key that it has not is told as the others have it.
// Throws UsageError for an unknown key, with the nearest name.
std::string explain_key(const ReadConfig& read, int64_t ranks, const std::string& key);

// The same without a configuration: what each type has, and of a section its keys.
std::string describe_key(const std::string& key);

// The entries that either speaks of, by the current name of the key; throws as they do.
std::vector<CatalogueEntry> entries_told(const ReadConfig* read, const std::string& key);

bool is_known_key(const std::string& key);
std::string nearest_key(const std::string& key);  // empty where none is near

}  // namespace ds
