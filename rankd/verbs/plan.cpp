#include "rankd/verbs/plan.h"

#include <cstdio>

#include "config/load.h"
#include "core/dispatch.h"
#include "core/files/input_files.h"
#include "rankd/rank_device.h"
#include "train/assemble.h"
#include "train/plan/calibration.h"
#include "train/plan/dry_run.h"
#include "train/plan/limits.h"

namespace ds {
namespace {

DeviceCeilings ceilings_of_gpus(const EngineOptions& options, const ZeroConfig& zero, int ranks) {
  if (!kHasCudaKernels) {
    throw Unsupported(
        "plan --device cuda: this build has no kernels of GPUs, whose scratch memory a plan "
        "counts; configure one with DS_WITH_CUDA=ON, which needs nvcc and no GPU");
  }
  return cuda_ceilings(options, zero, ranks);
}

}  // namespace

int run_plan(const PlanArgs& args) {
  const Config config = load_config(args.config_path, args.overrides);
  RealFileSystem files;
  InputFiles inputs(files);
  const ModelConfig model = model_config(config.model, inputs);
  const int ranks = args.num_ranks.value_or(1);
  const EngineOptions options = engine_options(config, model, ranks);
  const DeviceCeilings ceilings = args.device == "cuda"
                                      ? ceilings_of_gpus(options, config.zero_optimization, ranks)
                                      : calibrate(options, ranks_here(ranks, args.threads));
  const RunPlan plan = dry_run(options, {.data = ranks}, ceilings);
  const std::string text = args.json ? plan_json(plan) : plan_text(plan, options);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);  // before the error of a plan that is over a limit
  require_within(plan, memory_limits(config));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
