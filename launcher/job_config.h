// What the launcher needs of train.json: checked here, once, before anything starts. The ranks get the
// canonical text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/command_line.h"

namespace ds {

struct JobConfig {
  std::filesystem::path directory;  // absolute; relative paths in the config start here
  std::string stem;                 // of the file name
  std::string canonical_text;
  std::string digest;  // SHA-256 of the canonical text
  int64_t steps_per_print = 10;
  ResumeMode resume = ResumeMode::kAuto;
};

// Throws InputMissing, ConfigError with file:line:column.
JobConfig load_job_config(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides);

}  // namespace ds
