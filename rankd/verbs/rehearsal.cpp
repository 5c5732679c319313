#include "rankd/verbs/rehearsal.h"

#include <array>

#include "config/available.h"
#include "config/load.h"
#include "config/origins.h"
#include "core/files/input_files.h"
#include "rankd/rank_device.h"
#include "train/assemble.h"
#include "train/plan/dry_run.h"
#include "train/plan/limits.h"

namespace ds {
namespace {

template <class Part>
void check_swap(const Config& config, const std::optional<Part>& part) {
  if (part && part->device == OffloadDevice::kNvme) io_options(config.aio, part->nvme_path);
}

void plan_run(const Config& config, int ranks, LimitCheck limits, FileSystem& files) {
  require_runnable(config);
  const ModelConfig model = model_config(config.model, files);
  const EngineOptions options = engine_options(config, model, ranks);
  if (config.train.steps) total_steps(config.train, batch_shape(config, ranks), 0);
  check_swap(config, config.zero_optimization.offload_param);
  check_swap(config, config.zero_optimization.offload_optimizer);
  const MeshSizes mesh = job_mesh(config, ranks, ranks);
  const RunPlan plan = dry_run(options, mesh, cpu_ceilings(options, config, mesh, 1));
  if (limits == LimitCheck::kOfPlan) require_within(plan, memory_limits(config));
}

}  // namespace

InputFindings rehearse(const Config& config, int ranks, LimitCheck limits, FileSystem& files) {
  InputFindings found;
  try {
    plan_run(config, ranks, limits, files);
  } catch (const Error& error) {
    KeyMessage said = split_key(error.what());
    found.defects.push_back({error.exit_code(), std::move(said.key), std::move(said.what)});
  }
  return found;
}

int run_rehearsal(const RehearsalArgs& args) {
  const ReadConfig read = read_config(args.config_path, args.overrides);
  RealFileSystem files;
  InputFiles inputs(files);
  print_findings(rehearse(read.config, args.ranks, args.limits, inputs));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
