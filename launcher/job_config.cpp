#include "launcher/job_config.h"

#include <algorithm>

#include "config/batch.h"
#include "config/load.h"
#include "core/error.h"
#include "launcher/credentials.h"

namespace ds {
namespace {

// Ranks that work on one sample together.
int64_t model_ranks(const Config& config) {
  return std::max<int64_t>(1, config.pipeline.stages.value_or(1)) *
         std::max<int64_t>(1, config.tensor_parallel.autotp_size) *
         std::max<int64_t>(1, config.sequence_parallel_size.value_or(1));
}

// All three corners of the batch triangle fix the data-parallel size.
std::optional<int64_t> implied_ranks(const Config& config) {
  if (!config.train_batch_size || !config.train_micro_batch_size_per_gpu ||
      !config.gradient_accumulation_steps) {
    return std::nullopt;
  }
  const int64_t per_rank =
      *config.train_micro_batch_size_per_gpu * *config.gradient_accumulation_steps;
  if (per_rank <= 0 || *config.train_batch_size % per_rank != 0) {
    return std::nullopt;  // wrong for every world; check_batch_sizes says how
  }
  return *config.train_batch_size / per_rank * model_ranks(config);
}

}  // namespace

JobConfig load_job_config(const std::string& path, const std::vector<std::string>& overrides) {
  const ReadConfig read = read_config(path, overrides);
  read.problems.throw_if_any();
  JobConfig out;
  std::error_code error;
  const std::filesystem::path file(path);
  const bool is_file = std::filesystem::exists(file, error);  // else the config itself, in base64
  out.directory = std::filesystem::absolute(is_file ? file : ".").parent_path();
  out.stem = is_file ? file.stem().string() : "config";
  out.canonical_text = to_config_text(read.config);
  out.digest = sha256_hex(out.canonical_text);
  out.steps_per_print = read.config.steps_per_print.value_or(0);
  out.resume = read.config.train.resume;
  out.implied_ranks = implied_ranks(read.config);
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == Severity::kNote) {
      out.notes.push_back(problem.text());
    }
  }
  return out;
}

void check_batch_sizes(const JobConfig& job, int ranks) {
  const Config config = parse_config(job.canonical_text);
  if (config.elasticity.enabled) {
    return;  // the elastic rules choose the batch sizes
  }
  try {
    resolve_batch(config.train_batch_size, config.train_micro_batch_size_per_gpu,
                  config.gradient_accumulation_steps,
                  data_parallel_size(ranks, model_ranks(config)));
  } catch (const ConfigError& error) {
    const std::string hint =
        job.implied_ranks ? fmt::format("; the batch sizes fit --num-ranks {}", *job.implied_ranks)
                          : "";
    throw ConfigError(fmt::format("{} (for {} ranks){}", error.what(), ranks, hint));
  }
}

}  // namespace ds
