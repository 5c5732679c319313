// Choosing and shortening what is trained on: data_efficiency (curriculum sampling, random-LTD,
// dynamic batches), the older curriculum_learning section, and progressive_layer_drop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class DifficultyType : int { kValue, kPercentile };
std::span<const EnumName> names_of(DifficultyType);
enum class ClusteringType : int { kScheduleBased, kSingleCluster };
std::span<const EnumName> names_of(ClusteringType);
enum class CurriculumScheduleType : int { kFixedLinear, kFixedRoot, kFixedDiscrete, kCustom };
std::span<const EnumName> names_of(CurriculumScheduleType);
enum class LrScaling : int { kLinear, kSqrt, kNone };
std::span<const EnumName> names_of(LrScaling);
enum class SequenceOrder : int { kRandom, kSeqlen, kDataloader };
std::span<const EnumName> names_of(SequenceOrder);
enum class TokenDropScheduleType : int { kFixedLinear };
std::span<const EnumName> names_of(TokenDropScheduleType);
enum class LtdModelType : int { kDecoder, kEncoder };
std::span<const EnumName> names_of(LtdModelType);
enum class HiddenStateOrder : int { kBatchSeqDim, kSeqBatchDim };
std::span<const EnumName> names_of(HiddenStateOrder);
enum class CurriculumType : int { kSeqlen };
std::span<const EnumName> names_of(CurriculumType);

// Parameters of the fixed_linear, fixed_root (total_curriculum_step, difficulty_step, root_degree)
// and fixed_discrete (difficulty, max_step) schedules; which are required depends on schedule_type.
struct CurriculumScheduleConfig {
  std::optional<int64_t> total_curriculum_step;
  std::optional<int64_t> difficulty_step;
  std::optional<int64_t> root_degree;
  std::optional<std::vector<int64_t>> difficulty;
  std::optional<std::vector<int64_t>> max_step;
};
void fields(Visitor& v, CurriculumScheduleConfig& c);

struct CurriculumMetricConfig {
  std::optional<std::string> index_to_sample_path;
  std::optional<std::string> index_to_metric_path;
  std::optional<DifficultyType> difficulty_type;
  std::optional<ClusteringType> clustering_type;
  std::optional<int64_t> min_difficulty;
  std::optional<int64_t> max_difficulty;
  std::optional<CurriculumScheduleType> schedule_type;
  std::optional<CurriculumScheduleConfig> schedule_config;
};
void fields(Visitor& v, CurriculumMetricConfig& c);

struct CurriculumSamplingConfig {
  bool enabled = false;
  std::optional<std::string> data_cluster_path;
  std::map<std::string, CurriculumMetricConfig> curriculum_metrics;
};
void fields(Visitor& v, CurriculumSamplingConfig& c);

struct DynamicBatchingConfig {
  bool enabled = false;
  std::optional<std::string> metrics_path;
  LrScaling lr_scaling_method = LrScaling::kLinear;
  int64_t min_batch_size = 1;
  std::optional<int64_t> max_batch_size;
  SequenceOrder sequence_picking_order = SequenceOrder::kDataloader;
  std::optional<int64_t> max_tokens;
  bool verbose = false;
};
void fields(Visitor& v, DynamicBatchingConfig& c);

struct DataSamplingConfig {
  bool enabled = false;
  int64_t num_epochs = 1000;
  int64_t num_workers = 0;
  bool pin_memory = false;
  CurriculumSamplingConfig curriculum_learning;
  DynamicBatchingConfig dynamic_batching;
};
void fields(Visitor& v, DataSamplingConfig& c);

struct TokenDropScheduleConfig {
  std::optional<int64_t> require_steps;
  std::optional<int64_t> seq_per_step;
};
void fields(Visitor& v, TokenDropScheduleConfig& c);

struct RandomLtdScheduleConfig {
  std::optional<int64_t> min_value;
  std::optional<int64_t> max_value;
  std::optional<TokenDropScheduleType> schedule_type;
  std::optional<TokenDropScheduleConfig> schedule_config;
};
void fields(Visitor& v, RandomLtdScheduleConfig& c);

struct LayerTokenLrConfig {
  bool enabled = false;
  Value others;
};
void fields(Visitor& v, LayerTokenLrConfig& c);

struct RandomLtdConfig {
  bool enabled = false;
  std::optional<int64_t> total_layer_num;
  std::optional<int64_t> random_ltd_layer_num;
  std::optional<std::vector<int64_t>> random_ltd_layer_id;
  std::optional<std::string> model_mask_name;
  std::optional<LtdModelType> model_type;
  std::optional<HiddenStateOrder> hidden_state_order;
  std::optional<RandomLtdScheduleConfig> random_ltd_schedule;
  LayerTokenLrConfig layer_token_lr_schedule;
};
void fields(Visitor& v, RandomLtdConfig& c);

struct DataRoutingConfig {
  bool enabled = false;
  RandomLtdConfig random_ltd;
};
void fields(Visitor& v, DataRoutingConfig& c);

struct DataEfficiencyConfig {
  bool enabled = false;
  int64_t seed = 1234;
  DataSamplingConfig data_sampling;
  DataRoutingConfig data_routing;
};
void fields(Visitor& v, DataEfficiencyConfig& c);

// The older section: sequence length grows from min_difficulty to max_difficulty.
struct CurriculumLearningConfig {
  bool enabled = false;
  std::optional<CurriculumType> curriculum_type;
  std::optional<int64_t> min_difficulty;
  std::optional<int64_t> max_difficulty;
  std::optional<CurriculumScheduleType> schedule_type;
  std::optional<CurriculumScheduleConfig> schedule_config;
};
void fields(Visitor& v, CurriculumLearningConfig& c);

struct ProgressiveLayerDropConfig {
  bool enabled = false;
  double theta = 1.0;
  double gamma = 0.001;
};
void fields(Visitor& v, ProgressiveLayerDropConfig& c);

}  // namespace ds
