#include "launcher/verbs/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/available.h"
#include "config/batch.h"
#include "config/elastic_batch.h"
#include "config/elastic_options.h"
#include "config/load.h"
#include "core/error.h"

namespace ds {

namespace {

constexpr std::array<std::string_view, 3> kBatchKeys = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};

bool is_refused(const Problems& problems, std::string_view path) {
  return std::ranges::any_of(problems.all(), [&](const Problem& problem) {
    return problem.severity == Severity::kError && problem.path == path;
  });
}

// Where the first of the batch sizes that are given stands.
Origin batch_origin(const Origins& origins) {
  for (const std::string_view path : kBatchKeys) {
    if (const auto given = origins.find(path); given != origins.end()) return given->second;
  }
  return {};
}

void check_batch(const ReadConfig& read, std::optional<int64_t> num_ranks, Problems& problems) {
  const Config& config = read.config;
  const bool refused = std::ranges::any_of(
      kBatchKeys, [&](std::string_view path) { return is_refused(problems, path); });
  if (!num_ranks || refused) return;  // a size that could not be read is missing here
  try {
    const int64_t ranks = data_parallel_size(*num_ranks, config.sequence_parallel_size.value_or(1));
    if (config.elasticity.enabled) {
      elastic_batch_sizes(elastic_options(config.elasticity), ranks, BatchKeys::kAbsent);
    } else {
      resolve_batch(config.train_batch_size, config.train_micro_batch_size_per_gpu,
                    config.gradient_accumulation_steps, ranks);
    }
  } catch (const Error& error) {
    problems.error(Basis::kDeepSpeed, "", batch_origin(read.origins), error.what());
  }
}

// In the order of the file: what has no position comes last.
void sort_by_position(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    const auto key = [](const Problem& p) {
      return std::tuple(p.origin.line == 0, p.origin.line, p.origin.column);
    };
    return key(a) < key(b);
  });
}

std::string counted(size_t count, std::string_view what) {
  if (count == 0) return fmt::format("no {}s", what);
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

CheckReport report(std::vector<Problem> problems, size_t left_out, const std::string& config) {
  sort_by_position(problems);
  CheckReport out;
  size_t errors = 0;
  for (const Problem& problem : problems) {
    const bool is_error = problem.severity == Severity::kError;
    errors += is_error ? 1 : 0;
    out.text += fmt::format("{}: {}\n", is_error ? "error" : "note", problem.text());
  }
  if (left_out > 0) out.text += fmt::format("... and {} more\n", left_out);
  out.text += fmt::format("{}: {}, {}\n", config, counted(errors, "error"),
                          counted(problems.size() - errors, "note"));
  out.exit_code = errors == 0 ? 0 : static_cast<int>(ExitCode::kConfig);
  return out;
}

}  // namespace

CheckReport check_config(const CheckOptions& options) {
  // A long base64 text is no name to print.
  constexpr size_t kLongestName = 200;
  const std::string name = options.config.size() > kLongestName ? "config" : options.config;
  ReadConfig read;
  try {
    read = read_config(options.config, options.overrides);
  } catch (const ConfigError& error) {
    return {fmt::format("error: {}\n{}: 1 error, no notes\n", error.what(), name),
            static_cast<int>(ExitCode::kConfig)};
  }
  check_available(read.config, read.origins, read.problems);
  check_batch(read, options.num_ranks, read.problems);
  Problems incomplete;
  check_complete(read.config, incomplete);
  for (Problem problem : incomplete.all()) {
    if (is_refused(read.problems, problem.path)) continue;  // it is given, and wrong
    problem.severity = Severity::kNote;  // a DeepSpeed file alone is a valid file
    read.problems.add(std::move(problem));
  }
  return report(read.problems.all(), read.problems.left_out(), name);
}

int run_check(const CheckOptions& options) {
  const CheckReport result = check_config(options);
  fmt::print("{}", result.text);
  return result.exit_code;
}

}  // namespace ds
