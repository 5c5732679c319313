#include "config/available.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/reader/convert.h"
#include "core/error.h"

namespace ds {

namespace {

struct Feature {
  const char* path;
  bool enabled;
  std::string instead = {};  // what there is, where that is not plain
  const char* section = "";  // whose other errors do not matter then; "": what `path` names
};

// "\"Lamb\"; available are Adam and Lion": of an enumeration that has some of its values.
template <class E>
std::string names_with(const std::vector<E>& some) {
  std::vector<std::string_view> names;
  for (const EnumName& name : names_of(E{})) {
    const bool there = std::ranges::find(some, static_cast<E>(name.value)) != some.end();
    if (there && std::ranges::find(names, name.name) == names.end()) names.push_back(name.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}
template <class E>
std::string_view name_of(E value) {
  for (const EnumName& name : names_of(E{})) {
    if (name.value == static_cast<int>(value)) return name.name;
  }
  return "";
}

// When the engine gains a feature, its line goes. What a stage does not look at is not asked for.
std::vector<Feature> zero_features(const Config& c) {
  const ZeroConfig& zero = c.zero_optimization;
  const bool sharded = zero.stage > 0;
  const bool full = zero.stage == 3;
  const std::string kept = "; parameters and optimizer state stay on the device that trains";
  return {
      {"zero_optimization.offload_param",
       sharded && zero.offload_param && zero.offload_param->device != OffloadDevice::kNone,
       zero.offload_param ? fmt::format(" to \"{}\"{}", name_of(zero.offload_param->device), kept)
                          : ""},
      {"zero_optimization.offload_optimizer",
       sharded && zero.offload_optimizer && zero.offload_optimizer->device != OffloadDevice::kNone,
       zero.offload_optimizer
           ? fmt::format(" to \"{}\"{}", name_of(zero.offload_optimizer->device), kept)
           : ""},
      {"zero_optimization.zero_hpz_partition_size", full && zero.zero_hpz_partition_size > 1},
      {"zero_optimization.zero_quantized_weights", full && zero.zero_quantized_weights},
      {"zero_optimization.zero_quantized_nontrainable_weights",
       full && zero.zero_quantized_nontrainable_weights},
      {"zero_optimization.zero_quantized_gradients", full && zero.zero_quantized_gradients},
      {"zero_optimization.zeropp_loco_param", full && zero.zeropp_loco_param.has_value()},
      {"zero_optimization.mics_shard_size", full && zero.mics_shard_size > 0},
      {"zero_optimization.zenflow", sharded && zero.zenflow.has_value()},
  };
}

std::vector<Feature> number_features(const Config& c) {
  return {
      {"fp16", c.fp16.enabled, "; fp32 and bf16 are"},
      {"amp", c.amp.enabled, "; bf16 is"},
      {"torch_autocast", c.torch_autocast.enabled, "; bf16 is"},
      {"bf16.bf16_master_weights_and_grads", c.bf16.bf16_master_weights_and_grads},
      {"bf16.bf16_optimizer_states", c.bf16.bf16_optimizer_states},
      {"data_types.grad_accum_dtype",
       c.data_types.grad_accum_dtype && *c.data_types.grad_accum_dtype != FloatType::kFp32},
      {"data_types.buffer_dtype", c.data_types.buffer_dtype.has_value()},
      {"communication_data_type",
       c.communication_data_type && *c.communication_data_type != FloatType::kFp32},
      {"prescale_gradients", c.prescale_gradients},
      {"gradient_predivide_factor", c.gradient_predivide_factor != 1.0},
      {"gradient_allreduce_op", c.gradient_allreduce_op == GradientReduction::kSum},
      {"sparse_gradients", c.sparse_gradients},
      {"managed_gradient_accumulation", !c.managed_gradient_accumulation},
  };
}

// A free-form section that says something and is not switched off.
bool is_used(const Value& section) {
  if (!section.is_object() || section.members().empty()) return false;
  const Value* enabled = section.find("enabled");
  return !enabled || boolean_of(*enabled).value_or(true);
}

std::vector<Feature> parallel_features(const Config& c) {
  const ActivationCheckpointingConfig& a = c.activation_checkpointing;
  return {
      {"activation_checkpointing.partition_activations", a.partition_activations, "",
       "activation_checkpointing"},
      {"activation_checkpointing.cpu_checkpointing", a.cpu_checkpointing, "",
       "activation_checkpointing"},
      {"activation_checkpointing.contiguous_memory_optimization", a.contiguous_memory_optimization,
       "", "activation_checkpointing"},
      {"sparse_attention", c.sparse_attention && c.sparse_attention->mode != SparsityMode::kDense},
      {"pipeline.stages", c.pipeline.stages.value_or(1) > 1, "", "pipeline"},
      {"tensor_parallel", c.tensor_parallel.autotp_size > 1 || c.tensor_parallel.tp.tp_size > 1 ||
                              c.tensor_parallel.partition_config.has_value()},
      {"expert_parallel", c.expert_parallel.enabled},
      {"sequence_parallel_size", c.sequence_parallel_size.value_or(1) > 1},
      {"compile.deepcompile", c.compile.deepcompile, "", "compile"},
      {"hybrid_engine", c.hybrid_engine.enabled},
      {"eigenvalue", c.eigenvalue.enabled},
      {"quantize_training", is_used(c.quantize_training)},
      {"weight_quantization", is_used(c.weight_quantization)},
  };
}

std::vector<Feature> training_features(const Config& c) {
  const DataEfficiencyConfig& data = c.data_efficiency;
  return {
      {"data_efficiency.data_routing.random_ltd", data.data_routing.random_ltd.enabled},
      {"data_efficiency.data_sampling.curriculum_learning",
       data.data_sampling.curriculum_learning.enabled},
      {"data_efficiency.data_sampling.dynamic_batching",
       data.data_sampling.dynamic_batching.enabled},
      {"curriculum_learning", c.curriculum_learning.enabled},
      {"progressive_layer_drop", c.progressive_layer_drop.enabled},
  };
}

std::vector<Feature> compression_features(const Config& c) {
  std::vector<Feature> features;
  for (const CompressionSwitch& technique : switches(c.compression_training)) {
    features.push_back({technique.section, technique.on});
  }
  return features;
}

std::vector<Feature> service_features(const Config& c) {
  return {
      {"tensorboard", c.tensorboard.enabled},
      {"wandb", c.wandb.enabled},
      {"comet", c.comet.enabled},
      {"csv_monitor", c.csv_monitor.enabled},
      {"flops_profiler", c.flops_profiler.enabled},
      {"comms_logger", c.comms_logger.enabled},
      {"autotuning", c.autotuning.enabled},
      {"nebula", c.nebula.enabled},
      {"datastates_ckpt", !c.datastates_ckpt.is_null()},
      {"checkpoint.writer", c.checkpoint.writer.has_value()},
  };
}

std::vector<Feature> model_features(const Config& c) {
  const std::vector<ModelFamily> families = {ModelFamily::kGpt2, ModelFamily::kLlama};
  const std::vector<OptimizerType> optimizers = {OptimizerType::kAdam, OptimizerType::kAdamW,
                                                 OptimizerType::kLion, OptimizerType::kAdagrad,
                                                 OptimizerType::kSgd};
  const auto optimizer = [&](OptimizerType t) { return c.optimizer.type == t; };
  const bool adam = optimizer(OptimizerType::kAdam) || optimizer(OptimizerType::kAdamW);
  const bool adagrad = optimizer(OptimizerType::kAdagrad);
  const auto among = [](const auto& wanted, const auto& there) {
    return !wanted || std::ranges::find(there, *wanted) != there.end();
  };
  const auto others = [](const auto& wanted, const auto& there) {
    return wanted ? fmt::format(" as \"{}\"; available are {}", name_of(*wanted), names_with(there))
                  : "";
  };
  return {
      {"model.family", !among(c.model.family, families), others(c.model.family, families)},
      {"optimizer.type", !among(c.optimizer.type, optimizers), others(c.optimizer.type, optimizers),
       "optimizer.params"},
      {"optimizer.params.amsgrad", adam && c.optimizer.adam.amsgrad},
      {"optimizer.params.lr_decay", adagrad && c.optimizer.adagrad.lr_decay != 0},
      {"optimizer.params.initial_accumulator_value",
       adagrad && c.optimizer.adagrad.initial_accumulator_value != 0},
      {"optimizer.params.maximize", optimizer(OptimizerType::kSgd) && c.optimizer.sgd.maximize},
  };
}

std::vector<Feature> all_features(const Config& config) {
  std::vector<Feature> all;
  for (const auto& some : {model_features(config), number_features(config), zero_features(config),
                           parallel_features(config), training_features(config),
                           compression_features(config), service_features(config)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

void check_available(const Config& config, const Origins& origins, Problems& problems) {
  Problems missing;
  for (const Feature& feature : all_features(config)) {
    if (!feature.enabled) continue;
    const std::string_view section = *feature.section ? feature.section : feature.path;
    const auto is_moot = [&](const Problem& problem) {
      return is_within(problem.path, section) || is_within(problem.path, feature.path);
    };
    problems.soften(is_moot, "without the feature");
    const auto given = origins.find(std::string_view(feature.path));
    missing.error(Basis::kOwn, feature.path, given == origins.end() ? Origin{} : given->second,
                  fmt::format("not available in this build{}", feature.instead));
  }
  for (const Problem& problem : missing.all()) problems.add(problem);
}

std::vector<std::string> keys_with_missing_features() {
  const Config any;
  std::vector<std::string> keys;
  for (const Feature& feature : all_features(any)) keys.emplace_back(feature.path);
  std::ranges::sort(keys);
  return keys;
}

void check_complete(const Config& config, Problems& problems) {
  const auto need = [&](bool present, const char* path, const char* what) {
    if (!present) problems.error(Basis::kOwn, path, {}, what);
  };
  need(config.model.folder || config.model.family, "model", "is needed to train");
  need(!config.data.train.empty(), "data.train", "is needed to train");
  need(config.train.steps || config.train.epochs, "train.steps",
       "is needed to train (or train.epochs)");
  const SchedulerConfig& scheduler = config.scheduler;
  const bool decays =
      scheduler.type == SchedulerType::kWarmupDecayLR && !scheduler.warmup_decay.total_num_steps;
  const bool waves =
      scheduler.type == SchedulerType::kWarmupCosineLR && !scheduler.warmup_cosine.total_num_steps;
  need((!decays && !waves) || config.train.steps, "scheduler.params.total_num_steps",
       "is needed to train (or train.steps, which it defaults to)");
  need(config.optimizer.type.has_value(), "optimizer", "is needed to train");
  need(
      config.train_batch_size || config.train_micro_batch_size_per_gpu || config.elasticity.enabled,
      "train_batch_size", "is needed to train (or train_micro_batch_size_per_gpu)");
}

void require_runnable(const Config& config) {
  Problems missing;
  check_available(config, {}, missing);
  if (missing.has_errors()) {
    std::string text;
    for (const Problem& problem : missing.all()) {
      text += (text.empty() ? "" : "\n") + problem.text();
    }
    throw Unsupported(text);
  }
  Problems incomplete;
  check_complete(config, incomplete);
  incomplete.throw_if_any();
}

}  // namespace ds
