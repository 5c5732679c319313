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

void fields(Visitor& v, TensorboardConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("output_path", c.output_path, {.meaning = "Base directory.", .refuse_null = true});
  v.field("job_name", c.job_name, {.meaning = "Sub-directory of output_path."});
}

void fields(Visitor& v, WandbConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("group", c.group, {.meaning = "Run group."});
  v.field("team", c.team, {.meaning = "Team (entity)."});
  v.field("project", c.project, {.meaning = "Project."});
}

void fields(Visitor& v, CometConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("workspace", c.workspace, {.meaning = "Workspace."});
  v.field("project", c.project, {.meaning = "Project."});
  v.field("samples_log_interval", c.samples_log_interval,
          {.meaning = "A metric is sent only after this many further samples.",
           .min = 0,
           .own_range = true});
  v.field("experiment_name", c.experiment_name, {.meaning = "Experiment name."});
  v.field("api_key", c.api_key, {.meaning = "API key; better kept out of files."});
  v.field("experiment_key", c.experiment_key, {.meaning = "Key of the experiment."});
  v.field("online", c.online, {.meaning = "Send to the server (true) or store locally (false)."});
  v.field("mode", c.mode, {.meaning = "How the experiment is opened."});
}

void fields(Visitor& v, CsvMonitorConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("output_path", c.output_path, {.meaning = "Base directory.", .refuse_null = true});
  v.field("job_name", c.job_name, {.meaning = "Sub-directory of output_path."});
}

void fields(Visitor& v, FlopsProfilerConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Turns the profiler on; wall_clock_breakdown follows."});
  v.field("profile_step", c.profile_step, {.meaning = "Global step that is profiled.", .min = 0});
  v.field(
      "module_depth", c.module_depth,
      {.meaning = "Depth down to which the aggregated part is printed; -1 for all.", .min = -1});
  v.field("top_modules", c.top_modules,
          {.meaning = "Entries per depth in the aggregated part.", .min = 0});
  v.field("detailed", c.detailed, {.meaning = "Print the annotated module tree as well."});
  v.field("output_file", c.output_file,
          {.meaning = "File for the report; null prints to standard output."});
  v.field("recompute_fwd_factor", c.recompute_fwd_factor,
          {.meaning = "Extra forward passes counted for activation recomputation: backward flops = "
                      "(2+factor)*forward.",
           .min = 0});
}

void fields(Visitor& v, CommsLoggerConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("verbose", c.verbose, {.meaning = "Print each operation at once."});
  v.field("prof_all", c.prof_all, {.meaning = "Record all operations."});
  v.field("debug", c.debug, {.meaning = "Append the calling function to the record name."});
  v.field("prof_ops", c.prof_ops, {.meaning = "Operations to record when prof_all is false."});
}

void fields(Visitor& v, ThroughputTimerConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Throughput timer on or off.",
           .effect = Effect::kAlwaysSo,
           .here = "tokens per second are always measured"});
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
