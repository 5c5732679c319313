// What a tuning run reads and writes (pure): the values to try, and what came of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader/value.h"
#include "offload/tuning/sweep.h"

namespace ds {

// One setting and what was measured with it: bytes per second, nothing where it was not asked for.
struct IoTrial {
  IoSetting setting;
  std::optional<double> read;
  std::optional<double> write;
  double score() const { return read.value_or(0) + write.value_or(0); }
};

// A file for --sweep-config: a list of values, or one, for each axis it names. ConfigError with
// the place of what is wrong.
SweepSpace read_sweep(std::string_view text, const std::string& source);

// {"aio": {...}}, to be pasted into train.json.
Value aio_section(const IoSetting& setting, bool use_gds);

// These take trials in the order in which they were made, at least one.
const IoTrial& best_of(const std::vector<IoTrial>& trials);
Value trials_json(const std::vector<IoTrial>& trials, bool use_gds);
std::string trials_table(std::vector<IoTrial> trials, size_t most);
std::string trials_plot(const std::vector<IoTrial>& trials, const std::string& title);

}  // namespace ds
