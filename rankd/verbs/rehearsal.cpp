#include "rankd/verbs/rehearsal.h"

#include "config/available.h"
#include "config/origins.h"
#include "rankd/device/rank_device.h"
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
  const ModelConfig model = training_model(config, files);
  const EngineOptions options = engine_options(config, model, ranks);
  total_steps(config.train, batch_shape(config, ranks), 1);  // of the smallest epoch there is
  check_swap(config, config.zero_optimization.offload_param);
  check_swap(config, config.zero_optimization.offload_optimizer);
  const MeshSizes mesh = job_mesh(config, ranks, ranks);
  const RunPlan plan = dry_run(options, mesh, cpu_ceilings(options, config, mesh, 1));
  if (limits == LimitCheck::kOfPlan) require_within(plan, memory_limits(config));
}

}  // namespace

std::vector<InputDefect> rehearse(const Config& config, int ranks, LimitCheck limits,
                                  FileSystem& files) {
  try {
    plan_run(config, ranks, limits, files);
  } catch (const Error& error) {
    KeyMessage said = split_key(error.what());
    return {{error.exit_code(), std::move(said.key), std::move(said.what)}};
  }
  return {};
}

}  // namespace ds
