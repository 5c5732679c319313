#include "launcher/run/job_config.h"

#include <algorithm>
#include <numeric>

#include "config/available.h"
#include "config/elastic_options.h"
#include "config/load.h"
#include "core/status/error.h"
#include "core/text/utf8.h"
#include "core/values/index.h"
#include "launcher/process/credentials.h"
#include "launcher/process/files/run_directory.h"

namespace ds {
namespace {

BatchSizes sizes_for(const BatchRequest& batch, int ranks) {
  const int64_t data_parallel = data_parallel_size(ranks, batch.model_ranks, batch.data_ranks);
  const BatchSizes sizes =
      batch.elastic ? elastic_batch_sizes(*batch.elastic, data_parallel, BatchKeys::kAbsent)
                    : resolve_batch(batch.train, batch.micro, batch.accumulation, data_parallel);
  const std::string why = micro_batch_conflict(batch.pipeline, sizes.accumulation);
  if (!why.empty()) throw ConfigError(fmt::format("pipeline.schedule: {}", why));
  return sizes;
}

// Checks the neighbourhoods that a configuration asks for.
void check_near_ranks(const BatchRequest& batch, int ranks) {
  if (batch.near) check_near(*batch.near, data_parallel_size(ranks, batch.model_ranks));
}

// As --num-ranks takes them.
constexpr int64_t kMostRanks = 1 << 16;

// The data-parallel sizes among which one is that the batch sizes fit, if they fit any.
std::vector<int64_t> data_sizes_to_try(const BatchRequest& batch) {
  constexpr int64_t kMostTried = 4096;  // no neighbourhood is larger, nor a round of micro-batches
  std::vector<int64_t> sizes;
  if (const std::optional<int64_t> implied = implied_ranks(batch)) {
    sizes.push_back(*implied / batch.model_ranks);
  } else if (batch.elastic) {
    const ElasticWorld unknown{.given = 0, .fallback = batch.model_ranks};
    sizes = elastic_batch(*batch.elastic, unknown).valid_counts.value_or(sizes);
  }
  if (sizes.empty()) {
    sizes.resize(to_size(kMostTried));
    std::iota(sizes.begin(), sizes.end(), 1);
  }
  std::erase_if(sizes,
                [&](int64_t size) { return size < 1 || size > kMostRanks / batch.model_ranks; });
  return sizes;
}

// A run that goes on from the model of another moves runs/latest to itself, and reads what it goes
// on from again when it restarts.
void pin_latest(Config& config) {
  if (config.model.folder) config.model.folder = without_latest(*config.model.folder).string();
  config.data.tokenizer = without_latest(config.data.tokenizer).string();
}

}  // namespace

BatchRequest batch_request(const Config& config) {
  return {
      config.train_batch_size,
      config.train_micro_batch_size_per_gpu,
      config.gradient_accumulation_steps,
      model_ranks(config),
      mesh_data_size(config),
      config.elasticity.enabled ? std::optional(elastic_options(config.elasticity)) : std::nullopt,
      near_ranks(config.zero_optimization),
      pipeline_split(config.pipeline)};
}

// Absolute: ranks start where the launcher does, and who looks at the hosts before them elsewhere.
std::vector<SwapPath> swap_paths(const ZeroConfig& zero) {
  std::vector<SwapPath> out;
  const auto add = [&](const char* section, const auto& part) {
    if (!part || part->device != OffloadDevice::kNvme) return;
    const std::string path = std::filesystem::absolute(part->nvme_path).string();
    const auto same = std::ranges::find(out, path, &SwapPath::path);
    if (same == out.end())
      out.push_back({fmt::format("zero_optimization.{}.nvme_path", section), path});
  };
  add("offload_param", zero.offload_param);
  add("offload_optimizer", zero.offload_optimizer);
  return out;
}

std::string config_stem(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file(path);
  return std::filesystem::exists(file, error) ? file.stem().string() : "config";
}

std::filesystem::path job_directory(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file(path);
  const bool is_file = std::filesystem::exists(file, error);  // else the config itself, in base64
  std::filesystem::path out = std::filesystem::absolute(is_file ? file : ".").parent_path();
  if (const std::string name = out.string(); first_invalid_utf8(name) != std::string::npos) {
    throw ConfigError(fmt::format(
        "{}: the folder's name is no UTF-8, in which ranks are told it; rename the folder",
        as_utf8(name)));
  }
  return out;
}

JobConfig load_job_config(const std::string& path, const std::vector<std::string>& overrides) {
  ReadConfig read = read_config(path, overrides);
  check_available(read.config, read.origins, read.problems);
  check_complete(read);
  read.problems.throw_if_any();
  pin_latest(read.config);
  JobConfig out;
  out.directory = job_directory(path);
  out.stem = config_stem(path);
  out.canonical_text = to_config_text(read.config);
  out.digest = sha256_hex(out.canonical_text);
  out.steps_per_print = printing_interval(read.config);
  out.log_every = read.config.train.log_every;
  out.shortest_run = std::chrono::minutes(read.config.elasticity.min_time);
  out.keeps_in_memory = read.config.train.save_in_memory_every > 0;
  out.resume = read.config.train.resume;
  out.backend = read.config.communication.backend;
  out.batch = batch_request(read.config);
  out.shares_directory = !read.config.checkpoint.use_node_local_storage;
  for (SwapPath& folder : swap_paths(read.config.zero_optimization)) {
    out.nvme_paths.push_back(std::move(folder.path));
  }
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == Severity::kNote) {
      out.notes.push_back(problem.text());
    }
  }
  return out;
}

JobConfig generation_config(const std::string& order) {
  JobConfig out;
  out.directory = std::filesystem::current_path();
  out.stem = "generate";
  out.canonical_text = "{}";
  out.digest = sha256_hex(order);
  out.shares_directory = false;
  out.resume = ResumeMode::kNever;
  out.batch = {
      .train = {}, .micro = 1, .accumulation = 1, .data_ranks = {}, .elastic = {}, .near = {}};
  return out;
}

std::optional<int64_t> implied_ranks(const BatchRequest& batch) {
  if (batch.data_ranks) return *batch.data_ranks * batch.model_ranks;
  if (!batch.train || !batch.micro || !batch.accumulation) {
    return std::nullopt;
  }
  const int64_t per_rank = *batch.micro * *batch.accumulation;
  if (per_rank <= 0 || *batch.train % per_rank != 0) {
    return std::nullopt;  // wrong for every world; check_batch_sizes says how
  }
  return *batch.train / per_rank * batch.model_ranks;
}

void check_batch_sizes(const BatchRequest& batch, int ranks) {
  check_near_ranks(batch, ranks);
  try {
    sizes_for(batch, ranks);
  } catch (const ElasticError&) {
    throw;  // says all there is to say
  } catch (const ConfigError& error) {
    const std::optional<int64_t> implied = implied_ranks(batch);
    std::string text = error.what();
    if (batch.model_ranks > 1) {
      text += fmt::format(" ({} ranks, {} of which work on each sample together)", ranks,
                          batch.model_ranks);
    }
    if (implied) text += fmt::format("; the batch sizes fit --num-ranks {}", *implied);
    throw ConfigError(text);
  }
}

int smallest_world(const BatchRequest& batch) {
  const std::vector<int64_t> sizes = data_sizes_to_try(batch);
  if (sizes.empty()) {
    throw ConfigError(fmt::format(
        "{} ranks work on each sample together (stages, and ranks that share layers and "
        "sequences), and a run has at most {} ranks",
        batch.model_ranks, kMostRanks));
  }
  for (const int64_t size : sizes) {
    const int world = narrow<int>(size * batch.model_ranks);
    if (same_batch(batch, world, world)) return world;
  }
  const int world = narrow<int>(sizes.front() * batch.model_ranks);
  check_batch_sizes(batch, world);
  return world;
}

bool same_batch(const BatchRequest& batch, int first_ranks, int ranks) {
  try {
    check_near_ranks(batch, ranks);
    return sizes_for(batch, ranks).train == sizes_for(batch, first_ranks).train;
  } catch (const ConfigError&) {
    return false;
  }
}

WorldShape local_shape(const JobConfig& config, const Machine& machine, std::optional<int> ranks,
                       std::optional<int> threads) {
  const int room = machine.gpus > 0 ? machine.gpus : machine.cores;
  const std::optional<int64_t> implied = implied_ranks(config.batch);
  if (!ranks && implied && *implied <= room) ranks = static_cast<int>(*implied);
  return choose_shape(machine, ranks, threads);
}

}  // namespace ds
