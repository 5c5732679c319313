#include "train/settings/zero_settings.h"

#include <algorithm>
#include <limits>

#include "config/elastic_options.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kMostBuffers = 1 << 20;

ModuleKind module_kind(TorchModule module) {
  switch (module) {
    case TorchModule::kLinear:
      return ModuleKind::kLinear;
    case TorchModule::kEmbedding:
      return ModuleKind::kEmbedding;
    case TorchModule::kLayerNorm:
      return ModuleKind::kLayerNorm;
    case TorchModule::kConvolution:
      break;  // no model has any
  }
  return ModuleKind::kOther;
}

// In which dtype gradients travel, and of which modules.
void set_wire(const Config& config, DType dtype, ZeroOptions& zero) {
  const TorchAutocastConfig& autocast = config.torch_autocast;
  if (zero.placement.policy.plus_plus.quantized_gradients) return;  // codes travel
  const std::optional<FloatType>& wanted = sequence_ranks(config) > 1
                                               ? config.seq_parallel_communication_data_type
                                               : config.communication_data_type;
  if (wanted) {
    const DType wire = dtype_of_config(*wanted);
    // Gradients in fp32 travel as they are, without a buffer of their own.
    if (wire != DType::kF32 || dtype != DType::kF32) zero.wire.dtype = wire;
  } else if (const std::optional<DType> narrow = autocast_dtype(autocast)) {
    zero.wire.dtype = narrow;
    zero.wire.modules = {ModuleKind::kOther};  // so that none named is none
    const std::vector<std::string> linear{"Linear"};
    for (const std::string& name : autocast.lower_precision_safe_modules.value_or(linear)) {
      if (const auto module = torch_module(name)) zero.wire.modules.push_back(module_kind(*module));
    }
  }
}

// ZeRO++ and MiCS, both of stage 3.
void set_neighbours(const ZeroConfig& config, ZeroPolicy& policy) {
  if (config.stage != 3) return;
  policy.plus_plus = {.quantized_weights = config.zero_quantized_weights,
                      .quantized_gradients = config.zero_quantized_gradients,
                      .secondary_weights = config.zero_hpz_partition_size > 1};
  if (const std::optional<LocoConfig>& loco = config.zeropp_loco_param) {
    policy.plus_plus.feedback = {.on = config.zero_quantized_gradients,
                                 .beta = static_cast<float>(loco->err_beta),
                                 .reset_steps = loco->reset_steps};
  }
  if (config.mics_shard_size > 0) policy.shard_over = Axis::kShard;
}

// Sets where stage 3 keeps this rank's slices of the weights, and how far ahead they are fetched:
// from the host as far as buckets are gathered ahead, from NVMe as far as there are buffers.
void offload_weights(const ZeroConfig& config, ZeroOptions& zero) {
  const std::optional<OffloadParamConfig>& param = config.offload_param;
  if (!param || param->device == OffloadDevice::kNone) return;
  const bool nvme = param->device == OffloadDevice::kNvme;
  zero.placement.policy.params.tier = nvme ? Tier::kNvme : Tier::kHost;
  zero.layout.gather.fetch_numel = config.stage3_prefetch_bucket_size;
  zero.placement.weights.pinning = param->pin_memory ? Pinning::kRequired : Pinning::kNone;
  if (!nvme) return;
  zero.placement.weights.host_numel = param->max_in_cpu;
  zero.placement.weights.buffers =
      narrow<int>(std::min<int64_t>(param->buffer_count, kMostBuffers));
  zero.placement.weights.buffer_numel = param->buffer_size;
  zero.layout.gather.fetch_numel = std::numeric_limits<int64_t>::max();
  zero.layout.gather.fetches = zero.placement.weights.buffers;
}

ZeroPolicy offloaded(ZeroPolicy policy, OffloadDevice device) {
  const Tier tier = device == OffloadDevice::kNone  ? Tier::kDevice
                    : device == OffloadDevice::kCpu ? Tier::kHost
                                                    : Tier::kNvme;
  policy.state.tier = policy.grads.tier = tier;
  return policy;
}

NvmeStateOptions rolling_options(const OffloadOptimizerConfig& offload) {
  return {.buffers = narrow<int>(std::min(offload.buffer_count, kMostBuffers)),
          .pipeline_read = offload.pipeline_read,
          .pipeline_write = offload.pipeline_write,
          .fast_init = offload.fast_init,
          .pinning = offload.pin_memory ? Pinning::kRequired : Pinning::kIfPossible};
}

}  // namespace

DType dtype_of_config(FloatType type) {
  switch (type) {
    case FloatType::kFp32:
      return DType::kF32;
    case FloatType::kFp16:
      return DType::kF16;
    case FloatType::kBf16:
      return DType::kBF16;
  }
  throw InternalError("unknown float type");
}

std::optional<DType> autocast_dtype(const TorchAutocastConfig& autocast) {
  if (!autocast.enabled) return std::nullopt;
  switch (autocast.dtype.value_or(AutocastType::kBf16)) {
    case AutocastType::kFp32:
      return std::nullopt;
    case AutocastType::kFp16:
      return DType::kF16;
    case AutocastType::kBf16:
      return DType::kBF16;
  }
  throw InternalError("unknown type of autocast");
}

OffloadOptimizerConfig offload_optimizer(const Config& config) {
  const ZeroConfig& zero = config.zero_optimization;
  OffloadOptimizerConfig none{.device = OffloadDevice::kNone};
  return zero.stage == 0 ? none : zero.offload_optimizer.value_or(none);
}

bool updates_ahead(const OffloadOptimizerConfig& offload) {
  return offload.super_offload && offload.device != OffloadDevice::kNone;
}

std::optional<ZenflowOptions> zenflow_options(const Config& config) {
  const std::optional<ZenflowConfig>& zenflow = config.zero_optimization.zenflow;
  if (!zenflow || config.zero_optimization.stage == 0) return std::nullopt;
  const int64_t interval = zenflow->select_interval.value_or(1);
  const bool by_step = zenflow->select_strategy == ZenflowStrategy::kStep;
  const bool by_default = zenflow->select_strategy == ZenflowStrategy::kAuto;
  return ZenflowOptions{.topk_ratio = zenflow->topk_ratio,
                        .select_every = by_step ? interval : 0,
                        .select_epochs = by_step ? 0 : (by_default ? 1 : interval),
                        .update_every = zenflow->update_interval,
                        .auto_ratio = zenflow->auto_ratio,
                        .warm_up = zenflow->full_warm_up_rounds,
                        .overlaps = zenflow->overlap_step,
                        .offloads_moments = zenflow->offload};
}

std::optional<kernels::BlockCode> base_code(const std::optional<LoraConfig>& lora) {
  if (!lora) return std::nullopt;
  const auto code = [&](kernels::BlockTable table, kernels::BlockScale scale) {
    return kernels::BlockCode{.table = table, .scale = scale, .block = base_block_of(*lora)};
  };
  switch (base_format_of(*lora)) {
    case BaseFormat::kModel:
      return std::nullopt;
    case BaseFormat::kNf4:
      return code(kernels::BlockTable::kNf4, lora->double_quantization
                                                 ? kernels::BlockScale::kFp8
                                                 : kernels::BlockScale::kFp32);
    case BaseFormat::kInt8:
      return code(kernels::BlockTable::kInt8, kernels::BlockScale::kFp32);
    case BaseFormat::kFp8:
      return code(kernels::BlockTable::kFp8, kernels::BlockScale::kFp32);
  }
  throw InternalError("unknown format of a base");
}

std::string code_words(const kernels::BlockCode& code) {
  const double bits = 8.0 * static_cast<double>(code.bytes(code.block));
  const std::string_view name = code.table == kernels::BlockTable::kNf4    ? "nf4"
                                : code.table == kernels::BlockTable::kInt8 ? "int8"
                                                                           : "fp8";
  return fmt::format("{}, {:.4g} bits each", name, bits / static_cast<double>(code.block));
}

ZeroOptions zero_options(const Config& config, DType dtype, int64_t micro_steps) {
  const ZeroConfig& z = config.zero_optimization;
  // One micro-step leaves nothing to accumulate: the slice then has the gradient's own dtype, as
  // the ZeRO memory formula counts it. Sums over micro-steps are kept in fp32 where weights have
  // masters in fp32, unless the file says otherwise.
  const bool has_masters = !key_without_masters(config);
  DType slice = micro_steps > 1 && has_masters ? DType::kF32 : dtype;
  if (config.data_types.grad_accum_dtype) {
    slice = dtype_of_config(*config.data_types.grad_accum_dtype);
  }
  const OffloadOptimizerConfig offload = offload_optimizer(config);
  ZeroOptions zero{
      .layout = {.bucket_numel = std::min(z.reduce_bucket_size, z.allgather_bucket_size),
                 .persistence_numel = z.stage3_param_persistence_threshold,
                 .gather = {.prefetch_numel = z.stage3_prefetch_bucket_size,
                            .live_numel = z.stage3_max_live_parameters,
                            .reuse_numel = z.stage3_max_reuse_distance},
                 .base_code = base_code(config.lora)},
      .placement = {.policy = offloaded(zero_policy(static_cast<int>(z.stage)), offload.device)},
      .state = {.masters = has_masters ? Masters::kFp32 : Masters::kWeights,
                .sub_group_numel = z.stage == 3 ? z.sub_group_size : INT64_MAX,
                .update_ahead = updates_ahead(offload),
                .zenflow = zenflow_options(config),
                .offload_ratio = offload.ratio,
                .pin_memory = offload.pin_memory,
                .rolling = rolling_options(offload)},
      .wire = {.slice_dtype = slice, .micro_steps = static_cast<int>(micro_steps)}};
  if (config.optimizer.weight_rounding == WeightRounding::kStochastic) {
    zero.state.rounding_seed = static_cast<uint64_t>(config.train.seed);
  }
  offload_weights(z, zero);
  set_neighbours(z, zero.placement.policy);
  set_wire(config, dtype, zero);
  return zero;
}

}  // namespace ds
