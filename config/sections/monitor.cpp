#include "config/sections/monitor.h"

namespace ds {

std::span<const EnumName> names_of(CometMode) {
  static constexpr EnumName kNames[] = {
      {"get", static_cast<int>(CometMode::kGet)},
      {"create", static_cast<int>(CometMode::kCreate)},
      {"get_or_create", static_cast<int>(CometMode::kGetOrCreate)},
  };
  return kNames;
}

namespace {

// Visits the fields of a monitor whose files lie in a folder that the user may name.
template <class Section>
void folder_fields(Visitor& v, Section& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch.", .effect = Effect::kUsed});
  v.field("output_path", c.output_path,
          {.meaning = "Base directory.",
           .effect = Effect::kUsed,
           .refuse_null = true,
           .unset_meaning = "a folder of the run directory, called as this section"});
  v.field("job_name", c.job_name,
          {.meaning = "Sub-directory of output_path.", .effect = Effect::kUsed});
}

}  // namespace

void fields(Visitor& v, TensorboardConfig& c) { folder_fields(v, c); }

void fields(Visitor& v, WandbConfig& c) {
  v.field(
      "enabled", c.enabled,
      {.meaning = "Switch. Runs are written below wandb/ of the run directory, in the format of "
                  "the offline mode; `wandb sync` uploads them.",
       .effect = Effect::kUsed});
  v.field("group", c.group, {.meaning = "Run group.", .effect = Effect::kUsed});
  v.field("team", c.team, {.meaning = "Team (entity).", .effect = Effect::kUsed});
  v.field("project", c.project, {.meaning = "Project.", .effect = Effect::kUsed});
}

void fields(Visitor& v, CometConfig& c) {
  v.field(
      "enabled", c.enabled,
      {.meaning = "Switch. Experiments are written below comet/ of the run directory, at the end "
                  "as an archive; `comet upload` uploads it.",
       .effect = Effect::kUsed});
  v.field("workspace", c.workspace, {.meaning = "Workspace.", .effect = Effect::kUsed});
  v.field("project", c.project, {.meaning = "Project.", .effect = Effect::kUsed});
  v.field("samples_log_interval", c.samples_log_interval,
          {.meaning = "A metric is sent only after this many further samples.",
           .effect = Effect::kUsed,
           .min = 0,
           .own_range = true});
  v.field("experiment_name", c.experiment_name,
          {.meaning = "Experiment name.", .effect = Effect::kUsed});
  v.field("api_key", c.api_key,
          {.meaning = "API key; better kept out of files. It is written into none.",
           .effect = Effect::kAlwaysSo,
           .here = "`comet upload` asks for the key, or finds it in its own settings"});
  v.field("experiment_key", c.experiment_key,
          {.meaning = "Key of the experiment: 32 to 50 letters and digits.",
           .effect = Effect::kUsed,
           .unset_meaning = "a random one, kept in the run directory"});
  v.field("online", c.online,
          {.meaning = "Send to the server (true) or store locally (false).",
           .effect = Effect::kAlwaysSo,
           .here = "experiments are stored, and `comet upload` sends them",
           .only = {"false", "null"}});
  v.field("mode", c.mode,
          {.meaning = "How the experiment is opened when it is uploaded.",
           .effect = Effect::kUsed,
           .unset_meaning = "get_or_create"});
}

void fields(Visitor& v, CsvMonitorConfig& c) { folder_fields(v, c); }

void fields(Visitor& v, FlopsProfilerConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Turns the profiler on; wall_clock_breakdown follows. The profile is also "
                      "written to profile.json of the run directory.",
           .effect = Effect::kUsed});
  v.field("profile_step", c.profile_step,
          {.meaning = "Global step that is profiled, 0 for the first.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("module_depth", c.module_depth,
          {.meaning = "Depth down to which the aggregated part is printed; -1 for all.",
           .effect = Effect::kUsed,
           .min = -1});
  v.field(
      "top_modules", c.top_modules,
      {.meaning = "Entries per depth in the aggregated part.", .effect = Effect::kUsed, .min = 0});
  v.field("detailed", c.detailed,
          {.meaning = "Print the annotated module tree as well.", .effect = Effect::kUsed});
  v.field(
      "output_file", c.output_file,
      {.meaning = "File for the report; null prints to standard output.", .effect = Effect::kUsed});
  v.field("recompute_fwd_factor", c.recompute_fwd_factor,
          {.meaning = "Extra forward passes counted for activation recomputation: backward flops = "
                      "(2+factor)*forward.",
           .effect = Effect::kUsed,
           .min = 0});
}

std::span<const std::string_view> logged_operations() {
  static constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                                "all_to_all", "broadcast",  "send",
                                                "recv",       "barrier",    "split"};
  return kNames;
}

void fields(Visitor& v, CommsLoggerConfig& c) {
  v.field(
      "enabled", c.enabled,
      {.meaning = "Switch. At the end of a run its tables are printed.", .effect = Effect::kUsed});
  v.field("verbose", c.verbose,
          {.meaning = "Print each operation at once, into the log of the rank.",
           .effect = Effect::kUsed});
  v.field("prof_all", c.prof_all, {.meaning = "Record all operations.", .effect = Effect::kUsed});
  v.field("debug", c.debug,
          {.meaning = "Append the calling function to the record name: the part of the model that "
                      "calls.",
           .effect = Effect::kUsed});
  v.field("prof_ops", c.prof_ops,
          {.meaning = "Operations to record when prof_all is false: all_reduce, all_gather, "
                      "reduce_scatter, all_to_all, broadcast, send, recv, barrier, split.",
           .effect = Effect::kUsed});
}

void fields(Visitor& v, ThroughputTimerConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Throughput timer on or off: tokens per second in the metrics.",
           .effect = Effect::kUsed});
  v.field("synchronized", c.synchronized,
          {.meaning = "Synchronise the device when reading the throughput timer.",
           .effect = Effect::kAlwaysSo,
           .here = "a step is over when its work is",
           .only = {"true"}});
}

void fields(Visitor& v, TimersConfig& c) {
  v.section(
      "throughput", c.throughput,
      {.meaning = "The throughput timer.", .deepspeed_checks = DeepSpeedChecks::kKeysAndValues});
}

}  // namespace ds
