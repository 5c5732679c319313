// The autotuning section: which configurations the tuner tries and how it measures them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class TuningMetric : int { kLatency, kThroughput, kFLOPS };
std::span<const EnumName> names_of(TuningMetric);
enum class TunerType : int { kGridsearch, kRandom, kModelBased };
std::span<const EnumName> names_of(TunerType);

struct ModelInfoConfig {
  bool profile = false;
  std::optional<int64_t> num_params;
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> num_layers;
};
void fields(Visitor& v, ModelInfoConfig& c);

struct AutotuningConfig {
  bool enabled = false;
  std::string results_dir = "autotuning_results";
  std::string exps_dir = "autotuning_exps";
  bool overwrite = false;
  TuningMetric metric = TuningMetric::kThroughput;
  std::optional<int64_t> num_nodes;
  std::optional<int64_t> num_gpus;
  int64_t start_profile_step = 3;
  int64_t end_profile_step = 5;
  bool fast = true;
  std::optional<int64_t> max_train_batch_size;
  int64_t mp_size = 1;
  int64_t num_tuning_micro_batch_sizes = 3;
  TunerType tuner_type = TunerType::kModelBased;
  int64_t tuner_early_stopping = 5;
  int64_t tuner_num_trials = 50;
  Value arg_mappings;
  std::optional<std::string> metric_path;
  std::optional<std::string> model_info_path;
  int64_t min_train_batch_size = 1;
  int64_t max_train_micro_batch_size_per_gpu = 1024;
  int64_t min_train_micro_batch_size_per_gpu = 1;
  std::optional<ModelInfoConfig> model_info;
};
void fields(Visitor& v, AutotuningConfig& c);

}  // namespace ds
