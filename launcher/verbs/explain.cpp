#include "launcher/verbs/explain.h"

#include <fmt/format.h>

#include <cstdio>

#include "config/explain.h"
#include "config/load.h"
#include "core/error.h"
#include "launcher/json_text.h"

namespace ds {

namespace {

std::string explain_json(const ReadConfig& read, const ExplainOptions& options) {
  if (options.key) explain_key(read, options.num_ranks, *options.key);  // refuses an unknown one
  std::string rows;
  for (const ExplainedValue& row : explain_all(read, options.num_ranks)) {
    if (options.key && !is_within(row.path, *options.key)) continue;
    JsonObject item;
    item.text("path", row.path).raw("value", row.value).text("origin", row.origin);
    rows += (rows.empty() ? "" : ", ") + item.str();
  }
  return JsonObject().raw("values", "[" + rows + "]").str() + "\n";
}

std::string explanation(const ReadConfig& read, const ExplainOptions& options) {
  if (options.json) return explain_json(read, options);
  return options.key ? explain_key(read, options.num_ranks, *options.key) : explain_text(read, options.num_ranks);
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  const ReadConfig read = read_config(options.config, options.overrides);
  fmt::print("{}", explanation(read, options));
  if (!read.problems.has_errors()) return 0;
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == Severity::kError) fmt::print(stderr, "error: {}\n", problem.text());
  }
  return static_cast<int>(ExitCode::kConfig);
}

}  // namespace ds
