#include "rankd/verbs/plan.h"

#include <cstdio>

#include "config/load.h"
#include "core/files/input_files.h"
#include "train/assemble.h"
#include "train/plan/calibration.h"
#include "train/plan/dry_run.h"
#include "train/plan/limits.h"

namespace ds {

int run_plan(const PlanArgs& args) {
  const Config config = load_config(args.config_path, args.overrides);
  RealFileSystem files;
  InputFiles inputs(files);
  const ModelConfig model = model_config(config.model, inputs);
  const int ranks = args.num_ranks.value_or(1);
  const EngineOptions options = engine_options(config, model, ranks);
  const RunPlan plan =
      dry_run(options, {.data = ranks}, calibrate(options, ranks_here(ranks, args.threads)));
  const std::string text = args.json ? plan_json(plan) : plan_text(plan, options);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);  // before the error of a plan that is over a limit
  require_within(plan, memory_limits(config));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
