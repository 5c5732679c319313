#include "config/sections/autotuning.h"

namespace ds {

std::span<const EnumName> names_of(TuningMetric) {
  static constexpr EnumName kNames[] = {
      {"latency", static_cast<int>(TuningMetric::kLatency)},
      {"throughput", static_cast<int>(TuningMetric::kThroughput)},
      {"FLOPS", static_cast<int>(TuningMetric::kFLOPS)},
  };
  return kNames;
}

std::span<const EnumName> names_of(TunerType) {
  static constexpr EnumName kNames[] = {
      {"gridsearch", static_cast<int>(TunerType::kGridsearch)},
      {"random", static_cast<int>(TunerType::kRandom)},
      {"model_based", static_cast<int>(TunerType::kModelBased)},
  };
  return kNames;
}

void fields(Visitor& v, ModelInfoConfig& c) {
  v.field("profile", c.profile, {.meaning = "Measure the model information first."});
  v.field("num_params", c.num_params, {.meaning = "Parameter count."});
  v.field("hidden_size", c.hidden_size, {.meaning = "Hidden size."});
  v.field("num_layers", c.num_layers, {.meaning = "Layer count."});
}

void fields(Visitor& v, AutotuningConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Turns the tuner on."});
  v.field("results_dir", c.results_dir, {.meaning = "Directory of experiment results."});
  v.field("exps_dir", c.exps_dir, {.meaning = "Directory of experiment descriptions."});
  v.field("overwrite", c.overwrite, {.meaning = "Run experiments again whose results exist."});
  v.field("metric", c.metric, {.meaning = "Quantity by which experiments are ranked."});
  v.field("num_nodes", c.num_nodes, {.meaning = "Nodes per experiment.", .min = 1});
  v.field("num_gpus", c.num_gpus, {.meaning = "GPUs per node and experiment.", .min = 1});
  v.field("start_profile_step", c.start_profile_step,
          {.meaning = "Global step at which measuring starts.", .min = 0});
  v.field("end_profile_step", c.end_profile_step,
          {.meaning = "Global step at which measuring ends.", .min = 0});
  v.field("fast", c.fast, {.meaning = "Tune only ZeRO stage and micro batch size."});
  v.field("max_train_batch_size", c.max_train_batch_size,
          {.meaning = "Upper bound of the global batch size in the search.", .min = 1});
  v.field("mp_size", c.mp_size, {.meaning = "Model-parallel degree.", .min = 1});
  v.field("num_tuning_micro_batch_sizes", c.num_tuning_micro_batch_sizes,
          {.meaning = "Number of micro batch sizes to try.", .min = 1});
  v.field("tuner_type", c.tuner_type, {.meaning = "Search order inside one ZeRO stage."});
  v.field("tuner_early_stopping", c.tuner_early_stopping,
          {.meaning = "Experiments without improvement after which the search stops.", .min = 0});
  v.field("tuner_num_trials", c.tuner_num_trials,
          {.meaning = "Most experiments per ZeRO stage.", .min = 0});
  v.field("arg_mappings", c.arg_mappings,
          {.meaning = "Maps config keys to command-line arguments of the client script.",
           .object_only = true});
  v.field("metric_path", c.metric_path,
          {.meaning = "File for the measured metrics; null means autotuning_metric.json in the "
                      "working directory."});
  v.field("model_info_path", c.model_info_path,
          {.meaning = "File for the measured model information; null means "
                      "autotuning_model_info.json in the working directory."});
  v.field("min_train_batch_size", c.min_train_batch_size,
          {.meaning = "Lower bound of the global batch size.", .min = 1});
  v.field("max_train_micro_batch_size_per_gpu", c.max_train_micro_batch_size_per_gpu,
          {.meaning = "Upper bound of the micro batch size.", .min = 1});
  v.field("min_train_micro_batch_size_per_gpu", c.min_train_micro_batch_size_per_gpu,
          {.meaning = "Lower bound of the micro batch size.", .min = 1});
  v.section("model_info", c.model_info,
            {.meaning = "Known model information, to skip measuring it."});
}

}  // namespace ds
