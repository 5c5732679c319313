#include "rankd/verbs/suggest.h"

#include <algorithm>
#include <cstdio>

#include "cli/text/terminal_text.h"
#include "config/elastic_options.h"
#include "config/reader/enum_name.h"
#include "core/values/index.h"
#include "train/assemble.h"
#include "train/plan/limits.h"
#include "train/plan/suggest.h"

namespace ds {
namespace {

constexpr int64_t kHighestStage = 3;

// How those that share a sequence make attention; where none do, what is configured is idle.
Settings ring_settings(const Config& config, const MeshSizes& mesh) {
  if (mesh.sequence == 1) return {};
  Settings settings;
  const SequenceSplit split = mesh.ring > 1 ? SequenceSplit::kRing : SequenceSplit::kUlysses;
  if (split != config.sequence_parallel_attention) {
    settings.push_back(fmt::format("sequence_parallel_attention={}", enum_name(split)));
  }
  if (mesh.ring > 1 && mesh.ring != config.sequence_parallel_ring_size.value_or(mesh.sequence)) {
    settings.push_back(fmt::format("sequence_parallel_ring_size={}", mesh.ring));
  }
  return settings;
}

Settings mesh_settings(const Config& config, const MeshSizes& mesh) {
  Settings settings;
  const auto set = [&](const char* key, int64_t value) {
    settings.push_back(fmt::format("{}={}", key, value));
  };
  if (mesh.pipe != config.pipeline.stages.value_or(1)) set("pipeline.stages", mesh.pipe);
  if (mesh.sequence != sequence_ranks(config)) set("sequence_parallel_size", mesh.sequence);
  for (std::string& word : ring_settings(config, mesh)) settings.push_back(std::move(word));
  if (mesh.tensor != tensor_ranks(config)) {
    set("tensor_parallel.autotp_size", mesh.tensor);
    if (config.tensor_parallel.tp.tp_size > 1) set("tensor_parallel.tp.tp_size", mesh.tensor);
  }
  if (config.data_parallel_size.value_or(mesh.data) != mesh.data) {
    set("data_parallel_size", mesh.data);
  }
  return settings;
}

// All meshes are compared over as many samples a step as the configuration asks for.
Settings batch_settings(const Config& config, int ranks, int64_t data) {
  if (config.elasticity.enabled) return {};  // whose rules choose the batch
  const int64_t samples = config.train_batch_size
                              ? *config.train_batch_size
                              : batch_sizes(config, data_ranks(config, ranks)).train;
  const int64_t of_rank = samples / data / config.gradient_accumulation_steps.value_or(1);
  const int64_t wanted = config.train_micro_batch_size_per_gpu.value_or(of_rank);
  const BatchSizes sizes = batch_over(samples, data, std::max<int64_t>(1, wanted));
  const auto is_so = [](const std::optional<int64_t>& given, int64_t value) {
    return given.value_or(value) == value;
  };
  if (config.train_batch_size && is_so(config.train_micro_batch_size_per_gpu, sizes.micro) &&
      is_so(config.gradient_accumulation_steps, sizes.accumulation) &&
      batch_sizes(config, data) == sizes) {
    return {};
  }
  return {fmt::format("train_batch_size={}", sizes.train),
          fmt::format("train_micro_batch_size_per_gpu={}", sizes.micro),
          fmt::format("gradient_accumulation_steps={}", sizes.accumulation)};
}

class MeshSearch {
 public:
  MeshSearch(const PlanArgs& args, const Config& config, const ModelConfig& model)
      : args_(args), config_(config), model_(model) {
    if (args.device_memory) {
      args_.overrides.push_back(fmt::format("memory.device_limit=\"{}\"", *args.device_memory));
    }
  }

  // With the stage that is configured or, where that needs more memory than there is, the first
  // higher one that does not.
  MeshRow row(const MeshSizes& mesh) {
    MeshRow best{.mesh = mesh};
    const int64_t configured = config_.zero_optimization.stage;
    const int64_t shared_by = int64_t{mesh.data} * mesh.sequence;
    const int64_t highest = shared_by > 1 ? std::max(configured, kHighestStage) : configured;
    for (int64_t stage = configured; stage <= highest; ++stage) {
      MeshRow tried = row_at(mesh, stage);
      if (stage > configured && !tried.plan) break;  // what is said of the stage before counts
      best = std::move(tried);
      if (!best.plan || best.ruled_out.empty()) break;
    }
    return best;
  }

 private:
  MeshRow row_at(const MeshSizes& mesh, int64_t stage) {
    MeshRow row{.mesh = mesh, .settings = mesh_settings(config_, mesh), .zero_stage = stage};
    try {
      for (std::string& word : batch_settings(config_, args_.ranks(), mesh.data)) {
        row.settings.push_back(std::move(word));
      }
      if (stage != config_.zero_optimization.stage) {
        row.settings.push_back(fmt::format("zero_optimization.stage={}", stage));
      }
      const WayRead read = read_way(args_, model_, row.settings);
      row.ruled_out = read.refused;
      if (read.way) plan(*read.way, row);
    } catch (const ConfigError& error) {
      row.ruled_out = error.what();
    } catch (const Unsupported& error) {
      row.ruled_out = error.what();
    }
    return row;
  }

  void plan(const PlannedWay& way, MeshRow& row) {
    // What this machine can do is measured once, by the first mesh that is possible.
    if (!ceilings_) ceilings_ = planned_ceilings(args_, way);
    row.micro_batch = way.options.micro_batch;
    row.micro_steps = way.options.micro_steps();
    row.plan = dry_run(way.options, job_mesh(way.config, args_.ranks(), args_.ranks_of_host()),
                       *ceilings_);
    row.mesh = row.plan->mesh;
    require_within(*row.plan, memory_limits(way.config));
  }

  PlanArgs args_;
  const Config& config_;
  const ModelConfig& model_;
  std::optional<DeviceCeilings> ceilings_;
};

}  // namespace

int run_suggest(const PlanArgs& args, const Config& config, const ModelConfig& model) {
  MeshTable table{.ranks = args.ranks(), .hosts = args.num_hosts.value_or(1)};
  MeshSearch search(args, config, model);
  for (const MeshSizes& mesh : meshes_of(args.ranks())) table.rows.push_back(search.row(mesh));
  table.sort();
  say("{}", args.json ? suggestions_json(table) : suggestions_text(table));
  return static_cast<int>(table.best() != nullptr ? ExitCode::kDone : ExitCode::kConfig);
}

}  // namespace ds
