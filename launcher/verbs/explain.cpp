#include "launcher/verbs/explain.h"

#include <fmt/format.h>

#include <cstdio>

#include "config/explain.h"
#include "config/load.h"
#include "core/error.h"

namespace ds {

int run_explain(const ExplainOptions& options) {
  const ReadConfig read = read_config(options.config, options.overrides);
  fmt::print("{}", options.key ? explain_key(read, options.num_ranks, *options.key)
                               : explain_text(read, options.num_ranks));
  if (!read.problems.has_errors()) return 0;
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == Severity::kError) fmt::print(stderr, "error: {}\n", problem.text());
  }
  return static_cast<int>(ExitCode::kConfig);
}

}  // namespace ds
