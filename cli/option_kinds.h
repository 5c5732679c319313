// Kinds of options that several verbs have.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb_app.h"

namespace ds {

// Numbers from 1 on: of ranks, threads, hosts.
ValueCheck count_check();

// One of these words; what is none of them is told the nearest.
ValueCheck choice_check(const std::vector<std::string>& choices);

// "90", "10m", "2h".
VerbOption* add_duration(VerbApp& app, const std::string& name,
                         std::optional<std::chrono::nanoseconds>& value,
                         const std::string& description);

// "4096", "128K", "1G": powers of 1024.
VerbOption* add_bytes(VerbApp& app, const std::string& name, int64_t& value,
                      const std::string& description);

// The words key.path=value and ~key.path behind a config.
void add_overrides(VerbApp& app, std::vector<std::string>& overrides);
// Whether the key exists is the config's business; that it is no stray word is ours. Throws
// UsageError.
void check_overrides(const std::vector<std::string>& overrides);

// The trained model that a verb uses.
void add_model_source(VerbApp& app, std::string& source);
// The folder that a verb writes, which is not there yet.
void add_destination(VerbApp& app, std::string& destination);
// The folder of the model, where that source is a folder of adapters.
void add_base(VerbApp& app, std::optional<std::string>& base);
void add_tokenizer_of_model(VerbApp& app, std::string& tokenizer);
VerbOption* add_dtype(VerbApp& app, std::string& dtype, const std::string& description);
// What it computes on.
void add_device(VerbApp& app, std::string& device);

// The run that a verb looks at, runs/latest where none is named.
void add_run_directory(VerbApp& app, std::string& run);

}  // namespace ds
