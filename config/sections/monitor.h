// These sections say where training figures go (tensorboard, wandb, comet, csv_monitor) and what is
// measured beside them (flops_profiler, comms_logger, timers).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class CometMode : int { kGet, kCreate, kGetOrCreate };
std::span<const EnumName> names_of(CometMode);

struct TensorboardConfig {
  bool enabled = false;
  std::optional<std::string> output_path;
  std::string job_name = "DeepSpeedJobName";
};
void fields(Visitor& v, TensorboardConfig& c);

struct WandbConfig {
  bool enabled = false;
  std::optional<std::string> group;
  std::optional<std::string> team;
  std::string project = "deepspeed";
};
void fields(Visitor& v, WandbConfig& c);

struct CometConfig {
  bool enabled = false;
  std::optional<std::string> workspace;
  std::optional<std::string> project;
  int64_t samples_log_interval = 100;
  std::optional<std::string> experiment_name;
  std::optional<std::string> api_key;
  std::optional<std::string> experiment_key;
  std::optional<bool> online;
  std::optional<CometMode> mode;
};
void fields(Visitor& v, CometConfig& c);

struct CsvMonitorConfig {
  bool enabled = false;
  std::optional<std::string> output_path;
  std::string job_name = "DeepSpeedJobName";
};
void fields(Visitor& v, CsvMonitorConfig& c);

struct FlopsProfilerConfig {
  bool enabled = false;
  int64_t profile_step = 1;
  int64_t module_depth = -1;
  int64_t top_modules = 1;
  bool detailed = true;
  std::optional<std::string> output_file;
  double recompute_fwd_factor = 0.0;
};
void fields(Visitor& v, FlopsProfilerConfig& c);

// The operations that comms_logger can be asked for, as comm/ names them.
std::span<const std::string_view> logged_operations();

struct CommsLoggerConfig {
  bool enabled = false;
  bool verbose = false;
  bool prof_all = true;
  bool debug = false;
  std::vector<std::string> prof_ops = {};
};
void fields(Visitor& v, CommsLoggerConfig& c);

struct ThroughputTimerConfig {
  bool enabled = true;
  bool synchronized = true;
};
void fields(Visitor& v, ThroughputTimerConfig& c);

struct TimersConfig {
  ThroughputTimerConfig throughput;
};
void fields(Visitor& v, TimersConfig& c);

}  // namespace ds
