#include "rankd/verbs/profile.h"

#include "config/load.h"
#include "core/files/input_files.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "train/assemble.h"
#include "train/profile/one_step.h"

namespace ds {

int run_profile(const ProfileArgs& args) {
  const Config config = load_config(args.config_path, args.overrides);
  RealFileSystem files;
  InputFiles inputs(files);
  const ModelConfig model = training_model(config, inputs);
  const EngineOptions options = engine_options(config, model, args.ranks);
  const FlopsProfilerConfig& wish = config.flops_profiler;
  const StepProfile profile = profile_one_step(options, wish, args.threads);
  print_now(args.json ? profile_json(profile.figures, profile.model)
                      : profile_text(profile.figures, profile.model,
                                     {.module_depth = wish.module_depth,
                                      .top_modules = wish.top_modules,
                                      .detailed = wish.detailed}));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
