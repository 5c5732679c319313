// What a configuration comes to, key by key, and where each value comes from: default,
// file:line:column, the command line, or the formula that derives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/load.h"

namespace ds {

struct ExplainedValue {
  std::string path;
  std::string value;  // compact JSON
  // "train.json:3:14", "default", "train_batch_size / data-parallel ranks = 32 / 4".
  std::string origin;
};

// Every effective field in order. `ranks` completes the batch triangle; where the
// numbers do not agree the missing ones stay null and their origin says why.
std::vector<ExplainedValue> explain_all(const ReadConfig& read, int64_t ranks);

// The rows a person wants to see: everything in sections that were given or that every run has.
std::string explain_text(const ReadConfig& read, int64_t ranks);

// One key or section: its rows, and for a key its meaning, type, bounds and default. Throws
// UsageError for an unknown key, with the nearest name.
std::string explain_key(const ReadConfig& read, int64_t ranks, const std::string& key);

}  // namespace ds
