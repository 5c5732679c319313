#include "config/sections/data_efficiency.h"

namespace ds {

std::span<const EnumName> names_of(DifficultyType) {
  static constexpr EnumName kNames[] = {
      {"value", static_cast<int>(DifficultyType::kValue)},
      {"percentile", static_cast<int>(DifficultyType::kPercentile)},
  };
  return kNames;
}

std::span<const EnumName> names_of(ClusteringType) {
  static constexpr EnumName kNames[] = {
      {"schedule_based", static_cast<int>(ClusteringType::kScheduleBased)},
      {"single_cluster", static_cast<int>(ClusteringType::kSingleCluster)},
  };
  return kNames;
}

std::span<const EnumName> names_of(CurriculumScheduleType) {
  static constexpr EnumName kNames[] = {
      {"fixed_linear", static_cast<int>(CurriculumScheduleType::kFixedLinear)},
      {"fixed_root", static_cast<int>(CurriculumScheduleType::kFixedRoot)},
      {"fixed_discrete", static_cast<int>(CurriculumScheduleType::kFixedDiscrete)},
      {"custom", static_cast<int>(CurriculumScheduleType::kCustom)},
  };
  return kNames;
}

std::span<const EnumName> names_of(LrScaling) {
  static constexpr EnumName kNames[] = {
      {"linear", static_cast<int>(LrScaling::kLinear)},
      {"sqrt", static_cast<int>(LrScaling::kSqrt)},
      {"none", static_cast<int>(LrScaling::kNone)},
  };
  return kNames;
}

std::span<const EnumName> names_of(SequenceOrder) {
  static constexpr EnumName kNames[] = {
      {"random", static_cast<int>(SequenceOrder::kRandom)},
      {"seqlen", static_cast<int>(SequenceOrder::kSeqlen)},
      {"dataloader", static_cast<int>(SequenceOrder::kDataloader)},
  };
  return kNames;
}

std::span<const EnumName> names_of(TokenDropScheduleType) {
  static constexpr EnumName kNames[] = {
      {"fixed_linear", static_cast<int>(TokenDropScheduleType::kFixedLinear)},
  };
  return kNames;
}

std::span<const EnumName> names_of(LtdModelType) {
  static constexpr EnumName kNames[] = {
      {"decoder", static_cast<int>(LtdModelType::kDecoder)},
      {"encoder", static_cast<int>(LtdModelType::kEncoder)},
  };
  return kNames;
}

std::span<const EnumName> names_of(HiddenStateOrder) {
  static constexpr EnumName kNames[] = {
      {"batch_seq_dim", static_cast<int>(HiddenStateOrder::kBatchSeqDim)},
      {"seq_batch_dim", static_cast<int>(HiddenStateOrder::kSeqBatchDim)},
  };
  return kNames;
}

std::span<const EnumName> names_of(CurriculumType) {
  static constexpr EnumName kNames[] = {
      {"seqlen", static_cast<int>(CurriculumType::kSeqlen)},
  };
  return kNames;
}

void fields(Visitor& v, CurriculumScheduleConfig& c) {
  v.field("total_curriculum_step", c.total_curriculum_step,
          {.meaning = "Steps from least to greatest difficulty.",
           .effect = Effect::kUsed,
           .above = 0,
           .omit_unset = true});
  v.field("difficulty_step", c.difficulty_step,
          {.meaning = "Difficulty is rounded down to a multiple of this.",
           .effect = Effect::kUsed,
           .above = 0,
           .omit_unset = true});
  v.field("root_degree", c.root_degree,
          {.meaning = "Degree of the root: 1 linear, 2 square root, 3 cube root.",
           .effect = Effect::kUsed,
           .min = 1,
           .omit_unset = true});
  v.field("difficulty", c.difficulty,
          {.meaning = "Difficulty levels.", .effect = Effect::kUsed, .omit_unset = true});
  v.field("max_step", c.max_step,
          {.meaning = "Last step of each level but the final one.",
           .effect = Effect::kUsed,
           .omit_unset = true});
}

void fields(Visitor& v, CurriculumMetricConfig& c) {
  v.field("index_to_sample_path", c.index_to_sample_path,
          {.meaning = "Index file from metric value to samples made by the offline analysis.",
           .omit_unset = true});
  v.field("index_to_metric_path", c.index_to_metric_path,
          {.meaning = "Index file from row to metric value.", .omit_unset = true});
  v.field("difficulty_type", c.difficulty_type,
          {.meaning = "Whether difficulty is an absolute metric value or a percentile.",
           .omit_unset = true});
  v.field("clustering_type", c.clustering_type,
          {.meaning = "Whether samples are clustered along the schedule or all taken (difficulty "
                      "then acts by post-processing such as truncation).",
           .omit_unset = true});
  v.field("min_difficulty", c.min_difficulty,
          {.meaning = "Difficulty at the first step.", .omit_unset = true});
  v.field("max_difficulty", c.max_difficulty, {.meaning = "Final difficulty.", .omit_unset = true});
  v.field("schedule_type", c.schedule_type, {.meaning = "Pacing function.", .omit_unset = true});
  v.section("schedule_config", c.schedule_config,
            {.meaning = "Parameters of the pacing function."});
}

void fields(Visitor& v, CurriculumSamplingConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch of the curriculum."});
  v.while_enabled(c.enabled, [&] {
    v.field("data_cluster_path", c.data_cluster_path,
            {.meaning = "Directory for the index files of samples of equal difficulty.",
             .omit_unset = true});
    v.map("curriculum_metrics", "<metric>", c.curriculum_metrics,
          {.meaning = "One sub-dictionary per metric; the key is the metric name."});
  });
}

void fields(Visitor& v, DynamicBatchingConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch."});
  v.field("metrics_path", c.metrics_path,
          {.meaning = "Path of the sample length metrics.", .omit_unset = true});
  v.field("lr_scaling_method", c.lr_scaling_method,
          {.meaning = "How the learning rate follows the batch size."});
  v.field("min_batch_size", c.min_batch_size, {.meaning = "Smallest batch.", .min = 1});
  v.field("max_batch_size", c.max_batch_size, {.meaning = "Largest batch.", .min = 1});
  v.field("sequence_picking_order", c.sequence_picking_order,
          {.meaning = "Order in which sequences are packed."});
  v.field("max_tokens", c.max_tokens,
          {.meaning = "Token budget of a batch.", .min = 1, .omit_unset = true});
  v.field("verbose", c.verbose, {.meaning = "Log packing decisions."});
}

void fields(Visitor& v, DataSamplingConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Switch of the sampling part.",
           .effect = Effect::kAlwaysSo,
           .here = "curriculum_learning and dynamic_batching have switches of their own"});
  v.field("num_epochs", c.num_epochs,
          {.meaning = "Most passes over the original data set.",
           .effect = Effect::kAlwaysSo,
           .here = "train.steps or train.epochs say how long training takes",
           .above = 0});
  v.field("num_workers", c.num_workers,
          {.meaning = "Loader workers.",
           .effect = Effect::kAlwaysSo,
           .here = "every rank reads its own samples",
           .min = 0});
  v.field("pin_memory", c.pin_memory,
          {.meaning = "Pinned loader memory.",
           .effect = Effect::kAlwaysSo,
           .here = "samples are read into ordinary memory"});
  v.section(
      "curriculum_learning", c.curriculum_learning,
      {.meaning = "Curriculum sampling.", .effect = Effect::kNotYet, .off = "enabled is false"});
  v.section("dynamic_batching", c.dynamic_batching,
            {.meaning = "Variable batch size with learning-rate scaling.",
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
}

void fields(Visitor& v, TokenDropScheduleConfig& c) {
  v.field("require_steps", c.require_steps,
          {.meaning = "Steps from min_value to max_value.", .above = 0, .omit_unset = true});
  v.field("seq_per_step", c.seq_per_step,
          {.meaning = "The kept length is always rounded down to a multiple of this.",
           .above = 0,
           .omit_unset = true});
}

void fields(Visitor& v, RandomLtdScheduleConfig& c) {
  v.field("min_value", c.min_value, {.meaning = "Kept length at step 0.", .omit_unset = true});
  v.field("max_value", c.max_value,
          {.meaning = "Final kept length, normally the full length.", .omit_unset = true});
  v.field("schedule_type", c.schedule_type, {.meaning = "Schedule shape.", .omit_unset = true});
  v.section("schedule_config", c.schedule_config, {.meaning = "Parameters of the schedule."});
}

void fields(Visitor& v, LayerTokenLrConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Token-based learning-rate schedule."});
  v.rest("<param>", c.others,
         "Parameters of the layer-token learning-rate schedule, kept as given.");
}

void fields(Visitor& v, RandomLtdConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch of random-LTD."});
  v.while_enabled(c.enabled, [&] {
    v.field("total_layer_num", c.total_layer_num,
            {.meaning = "Layers of the model.", .omit_unset = true});
    v.field("random_ltd_layer_num", c.random_ltd_layer_num,
            {.meaning = "Layers to which dropping applies.", .omit_unset = true});
    v.field("random_ltd_layer_id", c.random_ltd_layer_id,
            {.meaning = "Indices of those layers.", .omit_unset = true});
    v.field("model_mask_name", c.model_mask_name,
            {.meaning = "Name of the keyword argument that carries the attention mask.",
             .omit_unset = true});
    v.field("model_type", c.model_type, {.meaning = "Model family.", .omit_unset = true});
    v.field("hidden_state_order", c.hidden_state_order,
            {.meaning = "Axis order of the hidden state.", .omit_unset = true});
    v.section("random_ltd_schedule", c.random_ltd_schedule,
              {.meaning = "Schedule of the kept sequence length."});
  });
  v.section("layer_token_lr_schedule", c.layer_token_lr_schedule,
            {.meaning = "Learning-rate schedule over consumed layer tokens."});
}

void fields(Visitor& v, DataRoutingConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Switch of the routing part.",
           .effect = Effect::kAlwaysSo,
           .here = "random_ltd has a switch of its own"});
  v.section("random_ltd", c.random_ltd,
            {.meaning = "Random layer-wise token dropping.",
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
}

void fields(Visitor& v, DataEfficiencyConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Master switch: seed is then that of the order of samples. Its parts have "
                      "switches of their own.",
           .effect = Effect::kUsed});
  v.field("seed", c.seed,
          {.meaning = "Seed of the sampler's random generator; train.seed is, where enabled is "
                      "false.",
           .effect = Effect::kUsed});
  v.section("data_sampling", c.data_sampling, {.meaning = "Data sampling techniques."});
  v.section("data_routing", c.data_routing, {.meaning = "Data routing techniques."});
}

void fields(Visitor& v, CurriculumLearningConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Whether samples are cut to a length that grows with the steps.",
           .effect = Effect::kUsed,
           .required = true,
           .deepspeed_refuses = true});
  v.field("curriculum_type", c.curriculum_type,
          {.meaning = "Difficulty metric: the tokens of a sample.",
           .effect = Effect::kUsed,
           .omit_unset = true});
  v.field("min_difficulty", c.min_difficulty,
          {.meaning = "Starting difficulty.", .effect = Effect::kUsed, .omit_unset = true});
  v.field("max_difficulty", c.max_difficulty,
          {.meaning = "Final difficulty.", .effect = Effect::kUsed, .omit_unset = true});
  v.field("schedule_type", c.schedule_type,
          {.meaning = "Pacing function.", .effect = Effect::kUsed, .omit_unset = true});
  v.section("schedule_config", c.schedule_config,
            {.meaning = "Parameters of the pacing function."});
}

void fields(Visitor& v, ProgressiveLayerDropConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Switch.", .required = true, .deepspeed_refuses = true});
  v.field("theta", c.theta, {.meaning = "Final keep probability.", .min = 0, .max = 1});
  v.field("gamma", c.gamma, {.meaning = "Speed of the decay.", .min = 0});
}

}  // namespace ds
