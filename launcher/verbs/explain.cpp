#include "launcher/verbs/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/text/terminal_text.h"
#include "config/explain/explain.h"
#include "config/explain/key_text.h"
#include "config/load.h"
#include "config/reader/convert.h"
#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

std::vector<std::string> errors_of(const ReadConfig& read) {
  std::vector<std::string> errors;
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == Severity::kError) errors.push_back(problem.text());
  }
  return errors;
}

std::string key_json(const CatalogueEntry& entry) {
  JsonObject row;
  row.text("path", entry.path);
  if (entry.condition.empty()) {
    row.raw("where", "null");
  } else {
    row.text("where", entry.condition);
  }
  return row.text("type", type_of(entry))
      .raw("default", to_compact_json(entry.default_value))
      .text("unset", entry.unset_meaning)
      .text("meaning", entry.meaning)
      .text("here", entry.effect_text)
      .str();
}

// What is asked: a configuration, a key of one, or a key of none.
struct Asked {
  std::optional<ReadConfig> read;
  std::optional<std::string> key;
};

Asked asked_of(const ExplainOptions& options) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(options.config, error);
  const bool is_file = std::filesystem::exists(status) && !std::filesystem::is_directory(status);
  if (!options.key && !is_file && is_known_key(options.config)) {
    if (options.overrides.empty()) return {std::nullopt, options.config};
    return {read_config_text("{}", "no file", options.overrides), options.config};
  }
  try {
    return {read_config(options.config, options.overrides), options.key};
  } catch (const InputMissing& missing) {
    const std::string nearest = options.key || is_file ? "" : nearest_key(options.config);
    if (nearest.empty()) throw;
    throw InputMissing(
        fmt::format("{}; if a key is meant, the nearest is {}", missing.what(), nearest));
  }
}

std::string as_json(const Asked& asked, const ExplainOptions& options) {
  const ReadConfig* read = asked.read ? &*asked.read : nullptr;
  std::vector<std::string> keys;
  std::string path;
  if (asked.key) {
    const std::vector<CatalogueEntry> told = entries_told(read, *asked.key);  // throws for no key
    for (const CatalogueEntry& entry : told) keys.push_back(key_json(entry));
    path = current_name(told, *asked.key);
  }
  std::vector<std::string> values;
  for (const ExplainedValue& value :
       read ? explain_all(*read, options.num_ranks) : std::vector<ExplainedValue>()) {
    if (asked.key && !is_within(value.path, path)) continue;
    JsonObject row;
    values.push_back(
        row.text("path", value.path).raw("value", value.value).text("origin", value.origin).str());
  }
  std::vector<std::string> errors;
  if (read) {
    for (const std::string& error : errors_of(*read)) errors.push_back(json_string(error));
  }
  return JsonObject()
      .raw("values", fmt::format("[{}]", fmt::join(values, ", ")))
      .raw("keys", fmt::format("[{}]", fmt::join(keys, ", ")))
      .raw("errors", fmt::format("[{}]", fmt::join(errors, ", ")))
      .str();
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  const Asked asked = asked_of(options);
  if (options.json) {
    say("{}\n", as_json(asked, options));
  } else if (!asked.read) {
    say("{}", describe_key(*asked.key));
  } else {
    say("{}", asked.key ? explain_key(*asked.read, options.num_ranks, *asked.key)
                        : explain_text(*asked.read, options.num_ranks));
  }
  if (!asked.read || !asked.read->problems.has_errors()) return 0;
  for (const std::string& error : errors_of(*asked.read)) say(stderr, "error: {}\n", error);
  return static_cast<int>(ExitCode::kConfig);
}

}  // namespace ds
