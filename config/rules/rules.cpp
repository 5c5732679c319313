#include "config/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "config/origins.h"

namespace ds {

namespace detail {

// A rule may complain about a key that is missing.
Origin RuleContext::at(std::string_view path) const { return origin_near(origins_, path); }

bool is_one_bit(const OptimizerConfig& optimizer) {
  return optimizer.type == OptimizerType::kOneBitAdam ||
         optimizer.type == OptimizerType::kZeroOneAdam ||
         optimizer.type == OptimizerType::kOneBitLamb;
}

namespace {

bool has_adam(const OptimizerConfig& optimizer) {
  return optimizer.type == OptimizerType::kAdam || optimizer.type == OptimizerType::kAdamW;
}

std::optional<std::string> whole_parameters_of(const OptimizerConfig& optimizer) {
  if (optimizer.type == OptimizerType::kLamb) return "Lamb needs norms of whole parameters";
  if (optimizer.type == OptimizerType::kMuon) return "Muon needs whole matrices";
  return std::nullopt;
}

void invertible_scale_rule(const RuleContext& r, const std::string& path, double scale) {
  if (scale >= kSmallestLossScale && scale <= kLargestLossScale) return;
  if (scale < 0) return;  // refused as such
  r.refuse_early(path, fmt::format("got {}, expected 2^-126 (1.2e-38) to 2^126 (8.5e37): gradients "
                                   "are in fp32 when they are divided by the scale",
                                   scale));
}

void loss_scale_rules(const RuleContext& r) {
  const Fp16Config& fp16 = r.config.fp16;
  const bool dynamic = fp16.enabled && fp16.loss_scale == 0.0;
  const auto positive = [&](const char* path, double value) {
    if (dynamic && value <= 0) {
      r.refuse(path, fmt::format("got {}, dynamic loss scaling needs a value > 0", value));
    } else if (value < 0) {
      r.refuse_early(path, fmt::format("got {}, expected a number >= 0", value));
    }
  };
  positive("fp16.loss_scale_window", static_cast<double>(fp16.loss_scale_window));
  if (dynamic && fp16.min_loss_scale == 0) {
    r.note_as_older(
        "fp16.min_loss_scale",
        "0 is taken as no floor, as by DeepSpeed before 0.19.3; then the scale may fall "
        "to 2^-126");
  } else {
    positive("fp16.min_loss_scale", fp16.min_loss_scale);
  }
  if (fp16.min_loss_scale != std::trunc(fp16.min_loss_scale)) {
    r.note_as_older("fp16.min_loss_scale",
                    "is no whole number, which DeepSpeed takes before 0.17.1 only");
  }
  if (fp16.loss_scale != 0) invertible_scale_rule(r, "fp16.loss_scale", fp16.loss_scale);
  if (!dynamic) return;
  if (fp16.min_loss_scale > 0) {
    invertible_scale_rule(r, "fp16.min_loss_scale", fp16.min_loss_scale);
  }
  const double first = std::exp2(static_cast<double>(fp16.initial_scale_power));
  if (fp16.min_loss_scale > first && fp16.min_loss_scale <= kLargestLossScale) {
    r.note("fp16.min_loss_scale",
           fmt::format("is above the first scale, {}, which initial_scale_power says: the first "
                       "overflow raises the scale to it",
                       first));
  }
}

bool is_number(const Value& value) {
  return value.kind() == Value::Kind::kInteger || value.kind() == Value::Kind::kNumber;
}

// What Apex is told beside the level. Nobody but Apex checks it in DeepSpeed.
void amp_rules(const RuleContext& r) {
  const AmpConfig& amp = r.config.amp;
  if (!amp.enabled) return;
  for (const Member& member : amp.others.members()) {
    const std::string path = "amp." + member.key;
    const Value& value = member.value;
    const bool positive = is_number(value) && value.as_number() > 0;
    if (member.key == "loss_scale") {
      const bool dynamic = value.is_string() && value.as_string() == "dynamic";
      if (!positive && !dynamic && !value.is_null())
        r.refuse_early(path, "expected \"dynamic\" or a number > 0");
      if (positive) invertible_scale_rule(r, path, value.as_number());
    } else if (member.key == "min_loss_scale" || member.key == "max_loss_scale") {
      if (!positive && !value.is_null()) r.refuse_early(path, "expected a number > 0");
      if (positive) invertible_scale_rule(r, path, value.as_number());
    } else {
      r.note(path,
             "has no effect: of Apex's parameters opt_level, loss_scale, min_loss_scale and "
             "max_loss_scale are heeded");
    }
  }
}

void autocast_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (!c.torch_autocast.enabled) return;
  if (c.fp16.enabled || c.bf16.enabled || c.amp.enabled) {
    r.refuse_early("torch_autocast.enabled", "excludes fp16, bf16 and amp; turn one off");
  }
  const auto& names = c.torch_autocast.lower_precision_safe_modules;
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    if (torch_module(name)) continue;
    r.refuse_early("torch_autocast.lower_precision_safe_modules",
                   fmt::format("no module type \"{}\" is known; models here have torch.nn.Linear, "
                               "torch.nn.Embedding and torch.nn.LayerNorm",
                               name));
  }
}

void precision_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (c.fp16.enabled && c.bf16.enabled) {
    r.refuse("bf16.enabled", "fp16 and bf16 cannot be simultaneously enabled; turn one off");
  }
  if (c.amp.enabled) {
    if (c.zero_optimization.stage > 0) {
      r.refuse_early("amp.enabled", "amp does not work with ZeRO; use fp16 or bf16 instead");
    }
    if (c.fp16.enabled || c.bf16.enabled) {
      r.refuse_early("amp.enabled", "amp excludes fp16 and bf16; turn one off");
    }
  }
  const FloatType mode = c.fp16.enabled   ? FloatType::kFp16
                         : c.bf16.enabled ? FloatType::kBf16
                                          : FloatType::kFp32;
  if (c.data_types.param_dtype && *c.data_types.param_dtype != mode) {
    r.refuse_early("data_types.param_dtype", "differs from the mode that fp16 and bf16 select");
  }
  const bool adds_in_fp32 =
      mode != FloatType::kFp32 && c.data_types.grad_accum_dtype == FloatType::kFp32;
  if (c.zero_optimization.stage == 0 && c.data_types.grad_accum_dtype &&
      *c.data_types.grad_accum_dtype != mode && !adds_in_fp32) {
    r.refuse_early("data_types.grad_accum_dtype",
                   "without ZeRO is the model's type or fp32; use zero_optimization.stage >= 1");
  }
  loss_scale_rules(r);
  amp_rules(r);
  autocast_rules(r);
}

void master_weight_rules(const RuleContext& r) {
  const Config& c = r.config;
  const bool sharded = c.zero_optimization.stage >= 1;
  const auto need_zero = [&](bool on, const char* path) {
    if (on && !sharded) r.refuse(path, "is only supported with ZeRO stage 1, 2 or 3");
  };
  need_zero(c.fp16.fp16_master_weights_and_grads, "fp16.fp16_master_weights_and_grads");
  need_zero(c.bf16.bf16_master_weights_and_grads, "bf16.bf16_master_weights_and_grads");
  need_zero(c.bf16.bf16_optimizer_states, "bf16.bf16_optimizer_states");
  if (c.bf16.bf16_optimizer_states && !c.bf16.bf16_master_weights_and_grads) {
    r.refuse("bf16.bf16_optimizer_states", "requires bf16_master_weights_and_grads");
  }
  if (c.fp16.fp16_master_weights_and_grads && c.bf16.bf16_master_weights_and_grads) {
    r.refuse_early("bf16.bf16_master_weights_and_grads",
                   "excludes fp16.fp16_master_weights_and_grads");
  }
}

// Who updates weights that are their own masters.
void update_rules(const RuleContext& r) {
  const Config& c = r.config;
  const std::optional<std::string_view> key = key_without_masters(c);
  if (key && !is_elementwise(c.optimizer)) {
    r.refuse_early(std::string(*key),
                   "Lamb, Muon and 1-bit optimizers have fp32 masters of their weights; take "
                   "another optimizer, or remove the key");
  }
  const bool is_bf16 = key && c.bf16.enabled;
  if (c.optimizer.weight_rounding == WeightRounding::kStochastic && !is_bf16) {
    r.refuse_early("optimizer.weight_rounding",
                   "\"stochastic\" is for weights in bf16 without fp32 masters; set "
                   "bf16.bf16_master_weights_and_grads, or remove the key");
  }
  if (is_bf16 && c.bf16.bf16_optimizer_states && r.given("optimizer.moment_dtype") &&
      c.optimizer.moment_dtype != MomentType::kBf16) {
    r.refuse_early("optimizer.moment_dtype",
                   "contradicts bf16.bf16_optimizer_states, which is \"bf16\" here; remove one "
                   "of them");
  }
}

void reduction_rules(const RuleContext& r) {
  const Config& c = r.config;
  const ZeroConfig& zero = c.zero_optimization;
  if (c.gradient_allreduce_op == GradientReduction::kSum) {
    const auto exclude = [&](bool on, const char* what) {
      if (on) r.refuse("gradient_allreduce_op", fmt::format("\"sum\" does not work with {}", what));
    };
    exclude(zero.stage == 3, "ZeRO stage 3");
    exclude(zero.zenflow.has_value(), "zenflow");
    exclude(c.compile.deepcompile, "compile.deepcompile");
  }
  if (zero.stage >= 2 && zero.reduce_scatter) {
    if (c.prescale_gradients) {
      r.refuse_early("prescale_gradients",
                     "must be false with ZeRO stage 2 or 3 and reduce_scatter");
    }
    if (c.gradient_predivide_factor != 1.0) {
      r.refuse_early("gradient_predivide_factor",
                     "must be 1.0 with ZeRO stage 2 or 3 and reduce_scatter");
    }
  }
  if (!c.managed_gradient_accumulation) {
    const auto exclude = [&](bool on, const char* what) {
      if (on) {
        r.refuse_early("managed_gradient_accumulation", fmt::format("false excludes {}", what));
      }
    };
    exclude(c.compile.deepcompile, "compile.deepcompile");
    exclude(c.amp.enabled, "amp");
    exclude(zero.overlap_comm && zero.stage < 2, "overlap_comm below ZeRO stage 2");
  }
}

// Model folders say later whether the head shares the embedding's table (inert.h has the others).
void sparse_gradient_rules(const RuleContext& r) {
  const Config& c = r.config;
  const std::string key = "sparse_gradients";
  if (!c.sparse_gradients) return;
  if (c.zero_optimization.stage > 0) {
    return r.refuse_early(
        key, fmt::format("works with ZeRO stage 0, the stage is {}, whose gradients are shared out "
                         "in slices of buckets; remove the key, or set "
                         "zero_optimization.stage to 0",
                         c.zero_optimization.stage));
  }
  if (is_one_bit(c.optimizer)) {
    return r.refuse_early(key,
                          "excludes 1-bit optimizers, which send their own momenta in place of "
                          "gradients; remove the key");
  }
  if (c.model.folder) {
    r.note(key,
           "has no effect if the model's config.json ties the head's weight to the embedding "
           "(tie_word_embeddings): that gradient has every row");
  }
}

// Each overlap of swapping has a buffer of its own (offload/rolling).
void swap_buffer_rules(const RuleContext& r, const OffloadOptimizerConfig& offload) {
  const char* const key = "zero_optimization.offload_optimizer.buffer_count";
  if (offload.buffer_count == 0) {
    return r.refuse_early(key, "0 leaves nothing to work in, expected at least 1");
  }
  const int64_t updates = 1 + (offload.pipeline_read ? 1 : 0) + (offload.pipeline_write ? 1 : 0);
  const int64_t fills = offload.pipeline_write || offload.fast_init ? 2 : 1;
  if (const int64_t needed = std::max(updates, fills); offload.buffer_count < needed) {
    r.refuse_early(key,
                   fmt::format("{} leaves none to {}, expected at least {}", offload.buffer_count,
                               offload.buffer_count == 1 && offload.pipeline_read
                                   ? "read ahead (pipeline_read)"
                               : offload.pipeline_write ? "write behind (pipeline_write)"
                                                        : "write behind (fast_init)",
                               needed));
  }
}

void update_time_rules(const RuleContext& r, const OffloadOptimizerConfig& offload) {
  const std::string key = "zero_optimization.offload_optimizer";
  const bool is_ahead = offload.super_offload;
  if (const auto why = whole_parameters_of(r.config.optimizer); is_ahead && why) {
    r.refuse_early(key + ".super_offload",
                   fmt::format("updates part by part during the backward pass, but {}; remove it, "
                               "or use another optimizer",
                               *why));
  } else if (!is_ahead && offload.device != OffloadDevice::kNone) {
    r.note(key, "the host's update " + host_update_begins(r.config));
  }
  const auto& param = r.config.zero_optimization.offload_param;
  if (is_ahead && offload.device == OffloadDevice::kNvme && param &&
      param->device == OffloadDevice::kNvme) {
    r.note(key + ".super_offload",
           "keeps the new weights of a rank in the host's memory until the norm is known, also "
           "where offload_param has them on nvme");
  }
}

// Nothing is a path that somebody left open, not the present folder.
void swap_folder_rules(const RuleContext& r) {
  const ZeroConfig& zero = r.config.zero_optimization;
  const auto need_path = [&](const char* key, const auto& offload) {
    if (!offload || offload->device != OffloadDevice::kNvme || !offload->nvme_path.empty()) return;
    r.refuse_early(key, "is empty; give the folder on the NVMe device that swap files go into");
  };
  need_path("zero_optimization.offload_param.nvme_path", zero.offload_param);
  need_path("zero_optimization.offload_optimizer.nvme_path", zero.offload_optimizer);
}

void offload_rules(const RuleContext& r) {
  const ZeroConfig& zero = r.config.zero_optimization;
  if (zero.offload_param && zero.offload_param->device == OffloadDevice::kNvme) {
    const auto at_least_one = [&](const char* key, int64_t value) {
      if (value < 1) r.refuse(key, "must be at least 1 where parameters are offloaded to nvme");
    };
    at_least_one("zero_optimization.offload_param.buffer_count", zero.offload_param->buffer_count);
    at_least_one("zero_optimization.offload_param.buffer_size", zero.offload_param->buffer_size);
  }
  if (zero.stage == 0 && zero.offload_optimizer &&
      zero.offload_optimizer->device != OffloadDevice::kNone) {
    r.refuse_early("zero_optimization.offload_optimizer",
                   "works with stage 1, 2 or 3, the stage is 0");
  }
  if (zero.offload_optimizer && zero.stage > 0) update_time_rules(r, *zero.offload_optimizer);
  if (zero.offload_optimizer && zero.offload_optimizer->ratio < 1.0) {
    if (zero.stage != 3) {
      r.refuse("zero_optimization.offload_optimizer.ratio",
               "partial offload (ratio < 1) works with stage 3 only");
    } else if (r.config.optimizer.type && !has_adam(r.config.optimizer)) {
      r.refuse_early("zero_optimization.offload_optimizer.ratio",
                     "partial offload (ratio < 1) works with Adam and AdamW only");
    }
  }
  if (zero.offload_optimizer && zero.offload_optimizer->device == OffloadDevice::kNvme) {
    swap_buffer_rules(r, *zero.offload_optimizer);
  }
  swap_folder_rules(r);
  if (zero.mics_shard_size > 0 && zero.offload_optimizer) {
    r.refuse_early("zero_optimization.mics_shard_size", "excludes offload_optimizer");
  }
}

// ZeRO++ and MiCS, which both cut the ranks of stage 3 into neighbourhoods.
void neighbour_rules(const RuleContext& r) {
  const ZeroConfig& zero = r.config.zero_optimization;
  if (zero.stage != 3) return;  // said to have no effect
  const bool mics = zero.mics_shard_size > 0;
  const bool secondary = zero.zero_hpz_partition_size > 1;
  if (mics && secondary) {
    r.refuse_early("zero_optimization.zero_hpz_partition_size",
                   "excludes mics_shard_size, whose shards are near already; give one of them");
  }
  if (mics && zero.zero_quantized_gradients) {
    r.refuse_early("zero_optimization.zero_quantized_gradients",
                   "excludes mics_shard_size: quantized gradients are summed over all ranks; give "
                   "one of them");
  }
  if (secondary && zero.offload_param && zero.offload_param->device != OffloadDevice::kNone) {
    r.refuse_early("zero_optimization.zero_hpz_partition_size",
                   "keeps a second copy of the weights on the device, and excludes offload_param, "
                   "which keeps the first elsewhere; give one of them");
  }
  if (zero.zero_quantized_gradients && r.config.communication_data_type) {
    r.refuse_early("communication_data_type",
                   "excludes zero_optimization.zero_quantized_gradients, which sends gradients as "
                   "4-bit codes; give one of them");
  }
}

void zenflow_interval_rules(const RuleContext& r, const ZenflowConfig& zenflow) {
  const bool by_default = zenflow.select_strategy == ZenflowStrategy::kAuto;
  if (!by_default && !zenflow.select_interval) {
    r.refuse_early("zero_optimization.zenflow.select_interval",
                   "must be a number unless select_strategy is auto");
  }
  if (zenflow.select_interval && *zenflow.select_interval < 1) {
    r.refuse_early("zero_optimization.zenflow.select_interval",
                   fmt::format("{}, expected at least 1", *zenflow.select_interval));
  } else if (zenflow.select_interval && zenflow.update_interval &&
             zenflow.select_strategy != ZenflowStrategy::kEpoch &&
             *zenflow.select_interval < *zenflow.update_interval) {
    r.refuse_early("zero_optimization.zenflow.select_interval", "must be >= update_interval");
  }
}

void zenflow_rules(const RuleContext& r, const ZenflowConfig& zenflow) {
  const Config& c = r.config;
  const ZeroConfig& zero = c.zero_optimization;
  const std::string key = "zero_optimization.zenflow";
  zenflow_interval_rules(r, zenflow);
  if (!zero.offload_optimizer) return r.refuse_early(key, "needs offload_optimizer");
  const auto exclude = [&](bool on, const char* why) {
    if (on && zero.stage > 0) r.refuse_early(key, why);
  };
  const OffloadOptimizerConfig& offload = *zero.offload_optimizer;
  exclude(offload.device != OffloadDevice::kCpu,
          "keeps the rest's state in the host's memory, expected offload_optimizer.device \"cpu\"");
  exclude(offload.ratio < 1.0,
          "shares state out by columns; remove offload_optimizer.ratio, which shares it out, too");
  exclude(offload.super_offload, "hides the host's update as super_offload does; give one of them");
  exclude(zero.offload_param && zero.offload_param->device != OffloadDevice::kNone,
          "updates important weights on the device, where offload_param does not keep them; remove "
          "one of them");
  exclude(c.optimizer.type && !has_adam(c.optimizer),
          "works with Adam and AdamW; use one of these, or remove zenflow");
  exclude(c.optimizer.moment_dtype != MomentType::kFp32,
          "keeps its moments in fp32; remove optimizer.moment_dtype");
  exclude(c.bf16.bf16_master_weights_and_grads || c.fp16.fp16_master_weights_and_grads,
          "keeps its master weights in fp32; remove the key *_master_weights_and_grads");
  if (zenflow.offload && zero.stage == 3 && r.given("zero_optimization.overlap_comm") &&
      !zero.overlap_comm) {
    r.refuse_early(key + ".offload", "needs overlap_comm at stage 3; set it to true");
  }
}

void zero_rules(const RuleContext& r) {
  const ZeroConfig& zero = r.config.zero_optimization;
  offload_rules(r);
  neighbour_rules(r);
  if (zero.legacy_stage1) {
    r.note("zero_optimization.legacy_stage1",
           "the old stage 1 is gone, as from DeepSpeed 0.5.9 on; stage 1 has the same result");
  }
  if (zero.elastic_checkpoint && zero.stage == 3) {
    r.note("zero_optimization.elastic_checkpoint",
           "is not needed at stage 3: every checkpoint loads into any number of ranks");
  }
  if (zero.zenflow) zenflow_rules(r, *zero.zenflow);
}

void one_bit_rules(const RuleContext& r) {
  if (r.config.optimizer.moment_dtype != MomentType::kFp32) {
    r.refuse("optimizer.moment_dtype", "1-bit optimizers keep their state in fp32; remove the key");
  }
}

void optimizer_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (r.given("optimizer") && !c.optimizer.type && !r.given("optimizer.type")) {
    r.note(
        "optimizer",
        "without type this section says nothing: DeepSpeed takes the program's own optimizer then");
  }
  if (is_one_bit(c.optimizer) && c.zero_optimization.stage > 0) {
    r.refuse_early("optimizer.type",
                   "1-bit optimizers do not work with ZeRO; set zero_optimization.stage to 0");
  }
  if (is_one_bit(c.optimizer)) one_bit_rules(r);
  const SgdParams& sgd = c.optimizer.sgd;
  if (c.optimizer.type == OptimizerType::kSgd && sgd.nesterov &&
      (sgd.momentum <= 0 || sgd.dampening != 0)) {
    r.refuse_early("optimizer.params.nesterov", "needs momentum > 0 and dampening 0");
  }
  if (c.optimizer.type == OptimizerType::kMuAdam && r.given("optimizer.params.adam_w_mode")) {
    r.note("optimizer.params.adam_w_mode",
           "MuAdam adds weight decay to the gradient in any case; MuAdamW decouples it");
  }
  if (c.optimizer.moment_dtype != MomentType::kFp32 &&
      (c.optimizer.type == OptimizerType::kLamb || c.optimizer.type == OptimizerType::kMuon)) {
    r.refuse("optimizer.moment_dtype", "Lamb and Muon keep their state in fp32");
  }
  if (c.optimizer.type == OptimizerType::kMuon && c.gradient_clipping > 0) {
    r.note(
        "gradient_clipping",
        fmt::format("{} bounds the norm of the gradients, before Muon's momentum takes them, and "
                    "so leaves the length of its update as it is; DeepSpeed clips the "
                    "orthogonalised update, whose steps are shorter at the same rate; 0 clips "
                    "neither",
                    c.gradient_clipping));
  }
  if (c.optimizer.type != OptimizerType::kMuon &&
      std::ranges::any_of(c.optimizer.param_groups, [](const ParamGroupConfig& group) {
        return group.use_muon.has_value();
      })) {
    r.refuse("optimizer.param_groups", "use_muon is for type Muon");
  }
  if (c.optimizer.type != OptimizerType::kOneBitAdam &&
      std::ranges::any_of(c.optimizer.param_groups, [](const ParamGroupConfig& group) {
        return group.non_freeze.has_value();
      })) {
    r.refuse("optimizer.param_groups", "non_freeze is for type OneBitAdam");
  }
  const bool lamb =
      c.optimizer.type == OptimizerType::kLamb || c.optimizer.type == OptimizerType::kOneBitLamb;
  if (lamb && c.fp16.enabled && c.fp16.loss_scale != 0.0) {
    r.refuse_early("fp16.loss_scale", "Lamb and OneBitLamb need dynamic loss scaling: set 0");
  }
}

void compile_rules(const RuleContext& r) {
  static constexpr std::array kPasses = {"z1", "z3", "autosp", "autotp"};
  for (const std::string& pass : r.config.compile.passes.value_or(std::vector<std::string>{})) {
    if (std::find(kPasses.begin(), kPasses.end(), pass) != kPasses.end()) continue;
    r.refuse("compile.passes",
             fmt::format("no such pass \"{}\", expected {}", pass, fmt::join(kPasses, ", ")));
  }
}

// A run that ends while the rate still grows was meant to have another warm-up.
void warmup_length_rule(const RuleContext& r) {
  const SchedulerConfig& s = r.config.scheduler;
  const int64_t warmup = s.type == SchedulerType::kWarmupLR        ? s.warmup.warmup_num_steps
                         : s.type == SchedulerType::kWarmupDecayLR ? s.warmup_decay.warmup_num_steps
                         : s.type == SchedulerType::kWarmupCosineLR
                             ? s.warmup_cosine.warmup_num_steps
                             : 0;
  const std::optional<int64_t> steps = r.config.train.steps;
  if (!steps || *steps >= warmup) return;
  r.note(
      "scheduler.params.warmup_num_steps",
      fmt::format("{} steps of warm-up are more than the {} of the run, whose learning rate never "
                  "reaches its peak",
                  warmup, *steps));
}

void scheduler_rules(const RuleContext& r) {
  const SchedulerConfig& s = r.config.scheduler;
  if (r.given("scheduler") && !s.type && !r.given("scheduler.type")) {
    r.note("scheduler", "without type this section says nothing: the learning rate stays as it is");
  }
  const auto total = [&](const std::optional<int64_t>& steps, int64_t warmup) {
    if (steps && *steps < warmup) {
      r.note("scheduler.params.total_num_steps",
             fmt::format("{} is smaller than warmup_num_steps {}: the warm-up never ends", *steps,
                         warmup));
    }
  };
  warmup_length_rule(r);
  // The section says so itself where it is given.
  if (s.type == SchedulerType::kOneCycle && !r.given("scheduler.params")) {
    r.refuse_early("scheduler.params", "OneCycle needs cycle_min_lr and cycle_max_lr");
  }
  if (s.type == SchedulerType::kWarmupDecayLR) {
    total(s.warmup_decay.total_num_steps, s.warmup_decay.warmup_num_steps);
  }
  if (s.type == SchedulerType::kWarmupCosineLR) {
    total(s.warmup_cosine.total_num_steps, s.warmup_cosine.warmup_num_steps);
  }
}

}  // namespace

bool is_elementwise(const OptimizerConfig& optimizer) {
  return !whole_parameters_of(optimizer) && !is_one_bit(optimizer);
}

void check_engine_rules(const RuleContext& context) {
  precision_rules(context);
  master_weight_rules(context);
  update_rules(context);
  reduction_rules(context);
  sparse_gradient_rules(context);
  zero_rules(context);
  optimizer_rules(context);
  scheduler_rules(context);
  compile_rules(context);
}

}  // namespace detail

std::string host_update_begins(const Config& config) {
  const auto& offload = config.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload) {
    return "begins during the backward pass, and is undone where the norm asks for another one";
  }
  if (const auto& zenflow = config.zero_optimization.zenflow) {
    return "of what zenflow finds less important " +
           (zenflow->update_interval
                ? fmt::format("is made every {} steps", *zenflow->update_interval)
                : std::string("is made when its gradients have added up")) +
           (zenflow->overlap_step ? ", while the next ones go on" : "");
  }
  const auto after_norm = [](const std::string& why) {
    return "begins after the norm is known: " + why;
  };
  if (const auto why = detail::whole_parameters_of(config.optimizer)) return after_norm(*why);
  if (config.gradient_clipping > 0) {
    return after_norm(fmt::format("gradient_clipping is {}", config.gradient_clipping));
  }
  if (config.fp16.enabled) return after_norm("fp16 skips steps whose gradients overflow");
  return after_norm("a step that is not finite changes nothing");
}

void check_rules(const Config& config, const Origins& origins, Problems& problems) {
  const detail::RuleContext context(config, origins, problems);
  detail::check_engine_rules(context);
  detail::check_feature_rules(context);
  detail::check_sharing_rules(context);
}

}  // namespace ds
