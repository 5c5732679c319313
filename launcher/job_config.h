// What the launcher needs of train.json: checked here, once, before anything starts. The ranks get the
// canonical text and parse nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/training_config.h"

namespace ds {

struct JobConfig {
  std::filesystem::path directory;  // absolute; relative paths in the config start here
  std::string stem;                 // of the file name
  std::string canonical_text;
  std::string digest;  // SHA-256 of the canonical text
  int64_t steps_per_print = 10;
  Resume resume = Resume::kAuto;
  std::optional<int64_t> implied_ranks;  // where the batch sizes leave one choice
  std::vector<std::string> notes;        // worth knowing, not wrong
};

// Throws InputMissing, or ConfigError with file:line:column for everything that is wrong.
JobConfig load_job_config(const std::string& path, const std::vector<std::string>& overrides);

// Throws ConfigError if the batch sizes do not fit a world of this many ranks.
void check_batch_sizes(const JobConfig& config, int ranks);

}  // namespace ds
