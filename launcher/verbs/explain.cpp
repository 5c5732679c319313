#include "launcher/verbs/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "cli/terminal_text.h"
#include "config/explain.h"
#include "config/load.h"
#include "core/error.h"
#include "launcher/decide/json_text.h"

namespace ds {
namespace {

std::vector<std::string> errors_of(const ReadConfig& read) {
  std::vector<std::string> errors;
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == Severity::kError) errors.push_back(problem.text());
  }
  return errors;
}

std::string as_json(const ReadConfig& read, const ExplainOptions& options) {
  if (options.key)
    explain_key(read, options.num_ranks, *options.key);  // throws where there is no such key
  std::vector<std::string> values;
  for (const ExplainedValue& value : explain_all(read, options.num_ranks)) {
    if (options.key && !is_within(value.path, *options.key)) continue;
    JsonObject row;
    values.push_back(
        row.text("path", value.path).raw("value", value.value).text("origin", value.origin).str());
  }
  std::vector<std::string> errors;
  for (const std::string& error : errors_of(read)) errors.push_back(json_string(error));
  return JsonObject()
      .raw("values", fmt::format("[{}]", fmt::join(values, ", ")))
      .raw("errors", fmt::format("[{}]", fmt::join(errors, ", ")))
      .str();
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  const ReadConfig read = read_config(options.config, options.overrides);
  if (options.json) {
    say("{}\n", as_json(read, options));
  } else {
    say("{}", options.key ? explain_key(read, options.num_ranks, *options.key)
                          : explain_text(read, options.num_ranks));
  }
  if (!read.problems.has_errors()) return 0;
  for (const std::string& error : errors_of(read)) say(stderr, "error: {}\n", error);
  return static_cast<int>(ExitCode::kConfig);
}

}  // namespace ds
