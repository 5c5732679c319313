#include "train/profile/flops_profiler.h"

#include <sstream>

#include "core/files/file.h"

namespace ds {

FlopsProfiler::FlopsProfiler(Engine& engine, StepTimer& timer, OpLog& ops,
                             const FlopsProfilerConfig& config, Tell tell)
    : engine_(engine), timer_(timer), ops_(ops), config_(config), tell_(std::move(tell)) {
  timer_.need();
}

bool FlopsProfiler::is_looked_at(int64_t steps_done, const PipelineInstruction& instruction) const {
  return steps_done == config_.profile_step && instruction.op == PipelineOp::kForwardPass &&
         instruction.micro_batch == 0;
}

void FlopsProfiler::before_instruction(int64_t steps_done, const PipelineInstruction& instruction) {
  if (is_looked_at(steps_done, instruction)) ops_.add(forward_);
}

void FlopsProfiler::after_instruction(int64_t steps_done, const PipelineInstruction& instruction) {
  if (!is_looked_at(steps_done, instruction)) return;
  end_ = StreamMoment::of(engine_.stream());
  ops_.remove(forward_);
}

std::vector<ProfiledOp> FlopsProfiler::timed_ops() const {
  std::vector<ProfiledOp> out;
  for (size_t i = 0; i < forward_.size(); ++i) {
    const StreamMoment& end = i + 1 < forward_.size() ? forward_[i + 1].begin : end_;
    out.push_back({.label = forward_[i].label,
                   .name = forward_[i].name,
                   .flops = forward_[i].cost.flops,
                   .seconds = end.seconds_since(forward_[i].begin)});
  }
  return out;
}

ModuleProfile FlopsProfiler::profile() const {
  std::vector<ProfiledParameter> parameters;
  ShardedStore& store = engine_.store();
  for (ParamId id = 0; id < store.count(); ++id) {
    parameters.push_back({store.spec(id).name, store.spec(id).logical_shape().numel()});
  }
  const EngineOptions& options = engine_.options();
  return module_profile({.config = options.model, .length = options.length, .is_trained = true},
                        parameters, timed_ops());
}

ProfileFigures FlopsProfiler::figures() const {
  const StepTimes times = times_of(*timer_.newest());
  const double micro_steps = std::max(1, times.micro_steps);
  return {.step = config_.profile_step,
          .world_size = engine_.host().size(),
          .data_ranks = engine_.mesh().size(Axis::kData),
          .model_shards = engine_.mesh().size(Axis::kTensor),
          .micro_batch = engine_.options().micro_batch,
          .forward_s = times.forward / micro_steps,
          .backward_s = times.backward / micro_steps,
          .update_s = times.update,
          .recompute_factor = config_.recompute_fwd_factor};
}

void FlopsProfiler::after_step(const StepReport& report) {
  if (report.step != config_.profile_step + 1 || !timer_.newest()) return;
  tell_(figures(), profile());
  timer_.need_no_more();
  forward_.clear();
}

void report_profile(RunReports& reports, const FlopsProfilerConfig& config,
                    const std::string& run_dir, const ProfileFigures& figures,
                    const ModuleProfile& model) {
  const std::string text = profile_text(figures, model,
                                        {.module_depth = config.module_depth,
                                         .top_modules = config.top_modules,
                                         .detailed = config.detailed});
  const bool to_file = config.output_file && !config.output_file->empty();
  const std::string wrong = failure_of([&] {
    RealFileSystem files;
    files.write_text_atomically(run_dir + "/profile.json", profile_json(figures, model));
    if (!to_file) return;
    files.make_directories(parent_directory(*config.output_file));
    files.write_text_atomically(*config.output_file, text);
  });
  if (to_file && wrong.empty()) {
    return reports.report_text("flops_profiler writes to " + *config.output_file);
  }
  if (!wrong.empty()) reports.report_text("flops_profiler: " + wrong + "; training goes on");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) reports.report_text(line);
}

}  // namespace ds
