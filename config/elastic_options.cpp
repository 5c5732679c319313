#include "config/elastic_options.h"

#include <algorithm>

#include "config/batch.h"
#include "config/config.h"

namespace ds {

ElasticOptions elastic_options(const ElasticityConfig& config) {
  ElasticOptions options;
  options.max_train_batch_size = config.max_train_batch_size;
  options.micro_batch_sizes = config.micro_batch_sizes;
  options.min_gpus = config.min_gpus;
  options.max_gpus = config.max_gpus;
  options.num_gpus_per_node = config.num_gpus_per_node;
  options.model_parallel_size = config.model_parallel_size;
  options.min_time = static_cast<double>(config.min_time);
  options.version = config.version;
  options.prefer_larger_batch = config.prefer_large_batch;
  options.ignore_non_elastic_batch_info = config.ignore_non_elastic_batch_info;
  return options;
}

int64_t tensor_ranks(const Config& config) {
  const TensorParallelConfig& tensor = config.tensor_parallel;
  return std::max({int64_t{1}, tensor.autotp_size, tensor.tp.tp_size});
}

bool excludes_frozen(const Config& config) {
  const bool is_beside_folder = config.lora && config.model.folder;
  return is_beside_folder && config.checkpoint.exclude_frozen_parameters.value_or(true);
}

std::string_view tensor_key(const Config& config) {
  return config.tensor_parallel.autotp_size > 1 ? "tensor_parallel.autotp_size"
                                                : "tensor_parallel.tp.tp_size";
}

int64_t sequence_ranks(const Config& config) {
  return std::max<int64_t>(1, config.sequence_parallel_size.value_or(1));
}

SequenceSharing sequence_sharing(const Config& config) {
  const int64_t ranks = sequence_ranks(config);
  const bool has_rings = ranks > 1 && config.sequence_parallel_attention == SequenceSplit::kRing;
  return {.ranks = ranks,
          .ring = has_rings ? config.sequence_parallel_ring_size.value_or(ranks) : 1};
}

namespace {

bool offloads_state(const ZeroConfig& zero) {
  const auto& offload = zero.offload_optimizer;
  return zero.stage > 0 && offload && offload->device != OffloadDevice::kNone;
}

}  // namespace

TensorSplit tensor_split(const Config& config) {
  return {.ranks = tensor_ranks(config),
          .grain = config.tensor_parallel.tp.tp_grain_size,
          .sequence = sequence_sharing(config).trading(),
          .shares_rows = config.tensor_parallel.sequence_parallel,
          .offloads_state = offloads_state(config.zero_optimization)};
}

int64_t model_ranks(const Config& config) {
  return pipeline_split(config.pipeline).stages * tensor_ranks(config) * sequence_ranks(config);
}

std::optional<int64_t> mesh_data_size(const Config& config) {
  return config.sequence_parallel_size ? config.data_parallel_size : std::nullopt;
}

int64_t data_ranks(const Config& config, int64_t world) {
  return data_parallel_size(world, model_ranks(config), mesh_data_size(config));
}

BatchSizes batch_sizes(const Config& config, int64_t data_parallel_size) {
  // Batch keys beside an elasticity section that does not permit them were refused when it was
  // read.
  return config.elasticity.enabled
             ? elastic_batch_sizes(elastic_options(config.elasticity), data_parallel_size,
                                   BatchKeys::kAbsent)
             : resolve_batch(config.train_batch_size, config.train_micro_batch_size_per_gpu,
                             config.gradient_accumulation_steps, data_parallel_size);
}

}  // namespace ds
