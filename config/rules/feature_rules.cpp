// Rules of the model, the data and the optional features.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config/elastic_batch.h"
#include "config/elastic_options.h"
#include "config/rules.h"
#include "config/sections/sequence_split.h"
#include "core/text/name_pattern.h"
#include "core/values/number_text.h"

namespace ds::detail {

namespace {

void pair_rules(const RuleContext& r, const ModelSection& model) {
  const char* const idle = !model.labels.empty() ? "model.labels"
                           : model.problem_type  ? "model.problem_type"
                                                 : nullptr;
  if (idle != nullptr) {
    r.refuse_early(idle,
                   "model.task next_sentence_prediction has two classes of its own; remove "
                   "it");
  }
  const std::optional<ModelConfig> described = described_model(model);
  if (described && !has_classifier(*described, ClassifierTask::kPairs)) {
    r.refuse_early("model.task",
                   fmt::format("this build has no \"{}\" that scores {}; take a bert",
                               family_name(*described), scored_words(ClassifierTask::kPairs)));
  }
}

void class_rules(const RuleContext& r, const ModelSection& model) {
  const std::vector<std::string>& labels = model.labels;
  const std::set<std::string> distinct(labels.begin(), labels.end());
  const bool of_tokens = model.task == ClassifierTask::kTokens;
  if (model.task == ClassifierTask::kPairs) return pair_rules(r, model);
  const bool is_one_class =
      of_tokens || model.problem_type.value_or(problem_of(labels)) == ClassifierProblem::kOneClass;
  if ((labels.size() == 1 && is_one_class) || distinct.size() != labels.size()) {
    r.refuse_early("model.labels", "expected at least two classes, each with another name");
  } else if (distinct.contains("")) {
    r.refuse_early("model.labels", "a class has no name; expected one for each");
  }
  if (of_tokens && model.problem_type) {
    r.refuse_early("model.problem_type",
                   "is for classes of texts, and model.task scores one class of each token; remove "
                   "it");
  }
  const char* const idle = model.task ? "model.task" : "model.problem_type";
  if ((model.task || model.problem_type) && labels.empty() && !model.folder) {
    r.refuse_early(idle, "nothing says which classes there are; give their names in model.labels");
  }
}

void model_rules(const RuleContext& r) {
  const ModelSection& model = r.config.model;
  if (model.folder && model.family) {
    r.refuse_early("model.family", "excludes model.folder, whose config.json names the family");
  }
  if (r.given("model") && !model.folder && !model.family && !r.given("model.family")) {
    r.refuse_early("model.family", "give a family, or a folder with a Hugging Face model");
  }
  const auto refuse_conflicts = [&](const auto& family) {
    for (const SizeConflict& conflict : size_conflicts(family)) {
      r.refuse_early(fmt::format("model.{}", conflict.key), conflict.why);
    }
  };
  if (const auto described = described_model(model)) refuse_conflicts(*described);
  if (model.family == ModelFamily::kMoeGpt) refuse_conflicts(ModelConfig(model.moe_gpt.gpt2));
  class_rules(r, model);
  const auto& masked = r.config.data.masked_lm;
  if (masked && masked->mask_replace_prob + masked->random_replace_prob > 1) {
    r.refuse_early("data.masked_lm.random_replace_prob",
                   fmt::format("{} with mask_replace_prob {} is more than all tokens",
                               masked->random_replace_prob, masked->mask_replace_prob));
  }
  if (model.family == ModelFamily::kResNet &&
      model.resnet.depths.size() != model.resnet.hidden_sizes.size()) {
    r.refuse_early("model.depths", "needs one entry per entry of hidden_sizes");
  }
}

// What follows from validation losses needs some.
void best_rules(const RuleContext& r) {
  const Config& c = r.config;
  const bool is_validated = !c.data.validation.empty() || c.data.validation_fraction > 0;
  const bool stops = c.train.early_stopping_patience > 0;
  for (const auto& [key, is_said] : {std::pair{"train.keep_best", c.train.keep_best},
                                     std::pair{"train.early_stopping_patience", stops}}) {
    if (!is_said || is_validated) continue;
    r.refuse_early(key,
                   "goes by validation losses, and there are none; give data.validation or "
                   "data.validation_fraction");
  }
  if (stops && c.train.eval_every == 0) {
    r.refuse_early(
        "train.early_stopping_patience",
        "counts evaluations, and train.eval_every is 0, so that the only one comes after "
        "the last step; give train.eval_every");
  }
  if (!stops && c.train.early_stopping_threshold != 0) {
    r.refuse_early("train.early_stopping_threshold",
                   "is for train.early_stopping_patience, which is 0; give that, or remove this");
  }
}

void training_rules(const RuleContext& r) {
  best_rules(r);
  const Config& c = r.config;
  if (c.train.resume_from && c.train.resume_from->empty()) {
    r.refuse("train.resume_from", "is empty, expected the folder of a checkpoint of DeepSpeed");
  }
  if (c.train.steps && c.train.epochs) {
    r.refuse_early("train.epochs", "excludes train.steps; give one of them");
  }
  if (c.train.copy_in_memory_every) {
    const int64_t kept = c.train.save_in_memory_every;
    if (kept == 0 || *c.train.copy_in_memory_every % kept != 0) {
      r.refuse_early(
          "train.copy_in_memory_every",
          fmt::format("{} is no multiple of save_in_memory_every = {}: only states that are "
                      "kept can be copied",
                      *c.train.copy_in_memory_every, kept));
    }
  }
  if (!c.data.weights.empty() && c.data.weights.size() != c.data.train.size()) {
    r.refuse_early("data.weights",
                   fmt::format("has {} numbers for the {} entries of data.train; give one for each",
                               c.data.weights.size(), c.data.train.size()));
  }
  if (!c.data.weights.empty() && c.data.order == DataOrder::kSequential) {
    r.refuse_early(
        "data.weights",
        "mixes the entries of data.train, and data.order \"sequential\" takes one after the "
        "other; remove one of them");
  }
  const std::optional<FloatType> gathered = gathered_dtype(c);
  if (gathered && c.train.final_dtype && *c.train.final_dtype != *gathered) {
    r.refuse_early("train.final_dtype",
                   "contradicts zero_optimization.stage3_gather_16bit_weights_on_model_save, which "
                   "saves the weights in the 16-bit type of training; remove one of them");
  }
  if (c.data.validation_fraction > 0 && !c.data.validation.empty()) {
    r.refuse_early("data.validation_fraction", "excludes data.validation; give one of them");
  }
  if (c.vocabulary_size && *c.vocabulary_size % 8 != 0) {
    r.note("vocabulary_size", "is no multiple of 8: matrix units work at less than full speed");
  }
}

// What goes by documents, and what cannot.
void document_rules(const RuleContext& r) {
  const Config& c = r.config;
  const DataSection& data = c.data;
  const bool is_used = data.reset_attention_mask || data.reset_position_ids || data.eod_mask_loss;
  if (data.eod_token_id && !is_used) {
    r.note("data.eod_token_id",
           "has no effect without reset_attention_mask, reset_position_ids or eod_mask_loss");
  }
  if (!data.eod_mask_loss) return;
  const auto& offload = c.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload) {
    r.refuse_early(
        "data.eod_mask_loss",
        "excludes zero_optimization.offload_optimizer.super_offload, whose updates begin "
        "before it is known how many targets a batch has; remove one of them");
  }
  if (c.eigenvalue.enabled) {
    r.refuse_early("data.eod_mask_loss",
                   "excludes eigenvalue, which looks at losses that all count the same; remove one "
                   "of them");
  }
}

void memory_rules(const RuleContext& r) {
  const auto check = [&](const char* key, const std::optional<std::string>& size) {
    if (!size || parse_bytes(*size)) return;
    r.refuse_early(
        key, fmt::format("\"{}\" is no size, expected one like \"4GiB\" or \"200 MB\"", *size));
  };
  check("memory.device_limit", r.config.memory.device_limit);
  check("memory.host_limit", r.config.memory.host_limit);
}

void checkpointing_rules(const RuleContext& r) {
  for (const std::string& pattern : r.config.activation_checkpointing.modules) {
    const std::string why = why_no_pattern(pattern);
    if (!why.empty()) r.refuse_early("activation_checkpointing.modules", why);
  }
}

void fixed_sparsity_rules(const RuleContext& r, const SparseAttentionConfig& s) {
  if (s.num_global_blocks <= 0 || s.num_local_blocks % s.num_global_blocks != 0) {
    r.refuse_early("sparse_attention.num_local_blocks",
                   fmt::format("{} is no multiple of num_global_blocks {}", s.num_local_blocks,
                               s.num_global_blocks));
    return;
  }
  if (s.num_different_global_patterns > s.num_local_blocks / s.num_global_blocks) {
    r.refuse_early("sparse_attention.num_different_global_patterns",
                   fmt::format("is at most num_local_blocks / num_global_blocks = {}",
                               s.num_local_blocks / s.num_global_blocks));
  }
  if (s.num_different_global_patterns > 1 && !s.different_layout_per_head) {
    r.refuse_early("sparse_attention.num_different_global_patterns",
                   "more than 1 needs different_layout_per_head");
  }
}

void sparse_attention_rules(const RuleContext& r) {
  if (!r.config.sparse_attention) return;
  const SparseAttentionConfig& s = *r.config.sparse_attention;
  const bool directed = s.mode == SparsityMode::kFixed || s.mode == SparsityMode::kVariable;
  if (s.mode == SparsityMode::kFixed) fixed_sparsity_rules(r, s);
  if (directed && s.horizontal_global_attention &&
      s.attention == AttentionDirection::kUnidirectional) {
    r.refuse_early("sparse_attention.horizontal_global_attention",
                   "needs attention \"bidirectional\"");
  }
  const bool indexed = s.mode == SparsityMode::kVariable || s.mode == SparsityMode::kBsLongformer;
  if (!indexed || !s.global_block_end_indices) return;
  const std::vector<int64_t>& ends = *s.global_block_end_indices;
  if (ends.size() != s.global_block_indices.size()) {
    r.refuse_early("sparse_attention.global_block_end_indices",
                   fmt::format("has {} entries, global_block_indices has {}", ends.size(),
                               s.global_block_indices.size()));
    return;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] <= s.global_block_indices[i]) {
      r.refuse_early("sparse_attention.global_block_end_indices",
                     fmt::format("entry {}: the end {} is not after the start {}", i, ends[i],
                                 s.global_block_indices[i]));
    }
  }
}

void elastic_rules(const RuleContext& r) {
  const ElasticityConfig& e = r.config.elasticity;
  if (!e.enabled) return;
  for (const char* key : {"elasticity.max_train_batch_size", "elasticity.micro_batch_sizes"}) {
    if (!r.given(key)) r.refuse(key, "is required when elasticity is enabled");
  }
  const auto exclude = [&](const char* key, const std::optional<int64_t>& value) {
    if (value && !e.ignore_non_elastic_batch_info) {
      r.refuse(key,
               "elasticity decides the batch; remove the key, or set "
               "elasticity.ignore_non_elastic_batch_info to have it ignored");
    }
  };
  exclude("train_batch_size", r.config.train_batch_size);
  exclude("train_micro_batch_size_per_gpu", r.config.train_micro_batch_size_per_gpu);
  exclude("gradient_accumulation_steps", r.config.gradient_accumulation_steps);
  try {
    validate(elastic_options(e));
  } catch (const Error& error) {
    const std::string_view message = error.what();
    const size_t prefix = message.starts_with("elasticity: ") ? 12 : 0;
    r.refuse("elasticity", std::string(message.substr(prefix)));
  }
}

// Whether all of the paths below `section` were given; names the ones that are missing.
void require_all(const RuleContext& r, const std::string& section,
                 std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const std::string path = fmt::format("{}.{}", section, key);
    if (!r.given(path))
      r.refuse_early(path, fmt::format("is required when {} is enabled", section));
  }
}

void schedule_rules(const RuleContext& r, const std::string& section,
                    const std::optional<CurriculumScheduleType>& type,
                    const std::optional<CurriculumScheduleConfig>& schedule) {
  if (!type || type == CurriculumScheduleType::kCustom) return;
  const std::string config = section + ".schedule_config";
  const CurriculumScheduleConfig s = schedule.value_or(CurriculumScheduleConfig{});
  const auto need = [&](bool present, const char* key) {
    if (!present) r.refuse_early(fmt::format("{}.{}", config, key), "is required by schedule_type");
  };
  if (type == CurriculumScheduleType::kFixedDiscrete) {
    need(s.difficulty.has_value(), "difficulty");
    need(s.max_step.has_value(), "max_step");
    if (s.difficulty && s.max_step && s.difficulty->size() != s.max_step->size() + 1) {
      r.refuse_early(config + ".difficulty", "needs one entry more than max_step");
    }
    return;
  }
  need(s.total_curriculum_step.has_value(), "total_curriculum_step");
  need(s.difficulty_step.has_value(), "difficulty_step");
  if (type == CurriculumScheduleType::kFixedRoot) need(s.root_degree.has_value(), "root_degree");
}

// Checks a schedule whose difficulty is the length of sequences, which matrix units work on.
void length_rules(const RuleContext& r, const std::string& section,
                  const std::optional<CurriculumScheduleConfig>& schedule) {
  if (schedule && schedule->difficulty_step && *schedule->difficulty_step % 8 != 0) {
    r.note(section + ".schedule_config.difficulty_step",
           "is no multiple of 8: slower on matrix units");
  }
}

template <class Curriculum>
void difficulty_rules(const RuleContext& r, const std::string& section, const Curriculum& c) {
  if (c.min_difficulty && c.max_difficulty && *c.max_difficulty < *c.min_difficulty) {
    r.refuse_early(section + ".max_difficulty", "is smaller than min_difficulty");
  }
}

// What counts on steps that are all alike.
void refuse_beside_lengths(const RuleContext& r) {
  if (r.config.curriculum_learning.schedule_type == CurriculumScheduleType::kCustom) {
    r.refuse_early("curriculum_learning.schedule_type",
                   "custom is a function of a script's own; take fixed_linear, fixed_root or "
                   "fixed_discrete");
  }
  if (r.config.flops_profiler.enabled) {
    r.refuse_early(
        "flops_profiler.enabled",
        "profiles a step of whole samples, and curriculum_learning makes steps of others; "
        "remove one of them");
  }
}

void curriculum_rules(const RuleContext& r) {
  const CurriculumLearningConfig& old = r.config.curriculum_learning;
  if (old.enabled) {
    require_all(r, "curriculum_learning",
                {"curriculum_type", "min_difficulty", "max_difficulty", "schedule_type"});
    schedule_rules(r, "curriculum_learning", old.schedule_type, old.schedule_config);
    length_rules(r, "curriculum_learning", old.schedule_config);
    difficulty_rules(r, "curriculum_learning", old);
    refuse_beside_lengths(r);
  }
  const std::string section = "data_efficiency.data_sampling.curriculum_learning";
  const CurriculumSamplingConfig& sampling =
      r.config.data_efficiency.data_sampling.curriculum_learning;
  if (!sampling.enabled) return;
  if (!r.given(section + ".curriculum_metrics")) {
    r.refuse(section + ".curriculum_metrics", "must be specified when curriculum learning is on");
  }
  require_all(r, section, {"data_cluster_path"});
  for (const auto& [name, metric] : sampling.curriculum_metrics) {
    const std::string path = fmt::format("{}.curriculum_metrics.{}", section, name);
    require_all(r, path,
                {"difficulty_type", "clustering_type", "min_difficulty", "max_difficulty",
                 "schedule_type"});
    schedule_rules(r, path, metric.schedule_type, metric.schedule_config);
    if (name == "seqlen") length_rules(r, path, metric.schedule_config);
    difficulty_rules(r, path, metric);
  }
}

void data_efficiency_rules(const RuleContext& r) {
  const DynamicBatchingConfig& dynamic = r.config.data_efficiency.data_sampling.dynamic_batching;
  if (dynamic.enabled && !dynamic.max_tokens) {
    r.refuse("data_efficiency.data_sampling.dynamic_batching.max_tokens",
             "must be specified when dynamic batching is enabled");
  }
  const std::string section = "data_efficiency.data_routing.random_ltd";
  const RandomLtdConfig& ltd = r.config.data_efficiency.data_routing.random_ltd;
  if (!ltd.enabled) return;
  require_all(r, section,
              {"total_layer_num", "random_ltd_layer_num", "random_ltd_layer_id", "model_mask_name",
               "model_type", "hidden_state_order", "random_ltd_schedule"});
  if (ltd.random_ltd_layer_num && ltd.random_ltd_layer_id &&
      *ltd.random_ltd_layer_num != static_cast<int64_t>(ltd.random_ltd_layer_id->size())) {
    r.refuse_early(section + ".random_ltd_layer_num",
                   fmt::format("is {}, random_ltd_layer_id has {} entries",
                               *ltd.random_ltd_layer_num, ltd.random_ltd_layer_id->size()));
  }
  if (!ltd.random_ltd_schedule) return;
  const std::string schedule = section + ".random_ltd_schedule";
  require_all(r, schedule, {"min_value", "max_value", "schedule_type", "schedule_config"});
  if (r.given(schedule + ".schedule_config")) {
    require_all(r, schedule + ".schedule_config", {"require_steps", "seq_per_step"});
  }
}

template <class Technique>
void technique_rules(const RuleContext& r, const std::string& name,
                     const std::optional<Technique>& technique) {
  if (!technique || !technique->shared_parameters.enabled) return;
  const std::string path = fmt::format("compression_training.{}.different_groups", name);
  if (!r.given(path)) r.refuse(path, "is required when the technique is enabled");
}

void compression_rules(const RuleContext& r) {
  const CompressionConfig& c = r.config.compression_training;
  technique_rules(r, "weight_quantization", c.weight_quantization);
  technique_rules(r, "activation_quantization", c.activation_quantization);
  technique_rules(r, "row_pruning", c.row_pruning);
  technique_rules(r, "head_pruning", c.head_pruning);
  technique_rules(r, "channel_pruning", c.channel_pruning);
  if (c.sparse_pruning &&
      c.sparse_pruning->shared_parameters.method != PruningMethod::kSnipMomentum) {
    technique_rules(r, "sparse_pruning", c.sparse_pruning);
  }
  if (c.head_pruning && c.head_pruning->shared_parameters.enabled &&
      !c.head_pruning->shared_parameters.num_heads) {
    r.refuse_early("compression_training.head_pruning.shared_parameters.num_heads",
                   "is required when head pruning is enabled");
  }
  if (c.weight_quantization) {
    for (const auto& [name, group] : c.weight_quantization->different_groups) {
      if (group.params.target_bits > group.params.start_bits) {
        r.refuse_early(fmt::format("compression_training.weight_quantization.different_groups.{}."
                                   "params.target_bits",
                                   name),
                       fmt::format("{} is more than start_bits {}", group.params.target_bits,
                                   group.params.start_bits));
      }
    }
  }
  if (c.layer_reduction && c.layer_reduction->keep_number_layer &&
      c.layer_reduction->teacher_layer &&
      *c.layer_reduction->keep_number_layer !=
          static_cast<int64_t>(c.layer_reduction->teacher_layer->size())) {
    r.refuse_early("compression_training.layer_reduction.teacher_layer",
                   "needs keep_number_layer entries");
  }
}

bool is_experiment_key(const std::string& key) {
  return key.size() >= 32 && key.size() <= 50 && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

void other_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (c.comet.experiment_key && !is_experiment_key(*c.comet.experiment_key)) {
    r.refuse_early("comet.experiment_key", "expected 32 to 50 letters and digits");
  }
  if (c.autotuning.end_profile_step < c.autotuning.start_profile_step) {
    r.refuse_early("autotuning.end_profile_step", "is before start_profile_step");
  }
  for (const std::string& name : c.comms_logger.prof_ops) {
    if (std::ranges::find(logged_operations(), name) != logged_operations().end()) continue;
    r.refuse_early("comms_logger.prof_ops",
                   fmt::format("no operation \"{}\" is known; there are {}", name,
                               fmt::join(logged_operations(), ", ")));
  }
  const TensorParallelConfig& tp = c.tensor_parallel;
  if (tp.tp.tp_size != 1 && tp.autotp_size != 0 && tp.tp.tp_size != tp.autotp_size) {
    r.refuse("tensor_parallel.tp.tp_size", "must be 1 or equal to autotp_size");
  }
  if (c.compile.offload_activation &&
      (c.compile.offload_parameters || c.compile.offload_opt_states)) {
    r.refuse_early("compile.offload_activation",
                   "excludes offload_parameters and offload_opt_states");
  }
  if (c.compile.offload_opt_states && c.compile.offload_parameters) {
    r.refuse_early("compile.offload_opt_states", "excludes offload_parameters");
  }
}

// What neighbourhoods are cut out of.
// What curvature cannot be measured with, and why; empty: nothing.
std::string eigenvalue_obstacle(const Config& c) {
  if (c.zero_optimization.stage >= 2) {
    return "ZeRO stages 2 and 3: every rank takes gradients of whole weights, and keeps them "
           "whole; use stage 0 or 1";
  }
  if (c.fp16.enabled || c.bf16.enabled || c.amp.enabled || c.torch_autocast.enabled) {
    return "fp16, bf16, amp and torch_autocast: curvature is a difference of gradients, of which "
           "16 bits leave nothing; train in fp32";
  }
  if (c.zero_optimization.offload_optimizer &&
      c.zero_optimization.offload_optimizer->device != OffloadDevice::kNone) {
    return "offload_optimizer: gradients would go to the host; remove one of them";
  }
  if (tensor_split(c).ranks > 1 || c.sequence_parallel_size.value_or(1) > 1) {
    return "tensor and sequence parallelism: of a block that ranks share none has the whole "
           "gradient; remove one of them";
  }
  if (c.sparse_gradients) return "sparse_gradients; remove one of them";
  if (c.lora) {
    return "lora: it looks at gradients of whole blocks, of which frozen parameters have none; "
           "remove one of them";
  }
  if (!c.train.freeze.empty() || !c.train.train_only.empty()) {
    return "train.freeze and train.train_only: it looks at gradients of whole blocks, of which "
           "frozen parameters have none; remove one of them";
  }
  if (c.optimizer.type == OptimizerType::kZeroOneAdam) {
    return "ZeroOneAdam, between whose exchanges each rank has weights of its own; take another "
           "optimizer";
  }
  return "";
}

// Which blocks there are is known where the model is; a folder's is looked at later.
void eigenvalue_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (!c.eigenvalue.enabled) return;
  if (const std::string why = eigenvalue_obstacle(c); !why.empty()) {
    r.refuse_early("eigenvalue.enabled", fmt::format("excludes {}", why));
  }
  if (c.eigenvalue.layer_num == 0) {
    r.refuse("eigenvalue.layer_num", "must be greater than 0 when eigenvalue is enabled");
  }
  const auto refuse_conflicts = [&](const ModelConfig& model) {
    for (const SizeConflict& conflict : eigenvalue_conflicts(c.eigenvalue, model)) {
      r.refuse_early(fmt::format("eigenvalue.{}", conflict.key), conflict.why);
    }
  };
  if (const auto described = described_model(c.model)) refuse_conflicts(*described);
  const bool is_watched = c.tensorboard.enabled || c.wandb.enabled || c.comet.enabled ||
                          c.csv_monitor.enabled || c.eigenvalue.verbose;
  if (!is_watched) {
    r.note("eigenvalue.enabled",
           "eigenvalues are computed, and nobody is told of them: switch on a monitor "
           "(csv_monitor, tensorboard, ...) or eigenvalue.verbose");
  }
}

}  // namespace

void check_feature_rules(const RuleContext& context) {
  model_rules(context);
  training_rules(context);
  document_rules(context);
  supervised_rules(context);
  lora_rules(context);
  preference_rules(context);
  distillation_rules(context);
  memory_rules(context);
  checkpointing_rules(context);
  sparse_attention_rules(context);
  elastic_rules(context);
  curriculum_rules(context);
  data_efficiency_rules(context);
  compression_rules(context);
  eigenvalue_rules(context);
  other_rules(context);
}

}  // namespace ds::detail
