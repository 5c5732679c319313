#include "config/inert.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "config/elastic_options.h"

namespace ds {

namespace {

// The switch itself must be right, and a name that is not known may have been meant for it.
bool may_switch(const Problem& problem, const SectionOff& off) {
  return problem.path == off.key || problem.path.find('.') == std::string::npos ||
         problem.message.starts_with("unknown key");
}

class Rules {
 public:
  explicit Rules(const Config& config) : c_(config) {}
  std::vector<InertKeys> take() { return std::move(rules_); }

  void zero();
  void offload();
  void precision();
  void reduction();
  void preference();
  void insight();
  void sections_off(const std::vector<SectionOff>& off);

 private:
  void note(std::string_view path, std::string_view why) {
    rules_.push_back(
        {std::string(path), InertKeys::kKey, "", fmt::format("has no effect {}", why)});
  }
  void notes(std::string_view section, std::initializer_list<std::string_view> keys,
             std::string_view why) {
    for (const std::string_view key : keys) note(fmt::format("{}.{}", section, key), why);
  }
  // Every key in `section`, except its path `but`.
  void all_in(std::string_view section, std::string_view but, std::string_view why) {
    rules_.push_back({std::string(section), InertKeys::kSection, std::string(but),
                      fmt::format("has no effect {}", why)});
  }

  const Config& c_;
  std::vector<InertKeys> rules_;
};

void Rules::zero() {
  const int64_t stage = c_.zero_optimization.stage;
  const std::string why = fmt::format("at ZeRO stage {}", stage);
  constexpr std::string_view kSection = "zero_optimization";
  if (stage == 0) return all_in(kSection, "zero_optimization.stage", why);
  if (stage != 3) {
    notes(kSection,
          {"stage3_max_live_parameters",
           "stage3_max_reuse_distance",
           "stage3_prefetch_bucket_size",
           "stage3_param_persistence_threshold",
           "stage3_gather_16bit_weights_on_model_save",
           "stage3_module_granularity_threshold",
           "stage3_model_persistence_threshold",
           "stage3_use_all_reduce_for_fetch_params",
           "stage3_allgather_sequential",
           "sub_group_size",
           "zero_hpz_partition_size",
           "zero_quantized_weights",
           "zero_quantized_gradients",
           "zero_quantized_nontrainable_weights",
           "log_trace_cache_warnings",
           "zeropp_loco_param",
           "mics_shard_size",
           "mics_hierarchical_params_gather",
           "memory_efficient_linear",
           "pipeline_loading_checkpoint",
           "override_module_apply"},
          why);
  } else {
    notes(kSection, {"allgather_partitions", "allgather_bucket_size", "round_robin_gradients"},
          why);
    if (!c_.zero_optimization.zero_quantized_gradients) {
      note("zero_optimization.zeropp_loco_param", "without zero_quantized_gradients");
    }
    if (c_.zero_optimization.stage3_gather_16bit_weights_on_model_save && !gathered_dtype(c_)) {
      note("zero_optimization.stage3_gather_16bit_weights_on_model_save", "without fp16 or bf16");
    }
  }
  if (stage != 1) note("zero_optimization.grad_hooks", why);
  if (stage != 2) note("zero_optimization.ignore_unused_parameters", why);
}

void Rules::offload() {
  const auto& param = c_.zero_optimization.offload_param;
  const auto& optimizer = c_.zero_optimization.offload_optimizer;
  const bool nvme = (param && param->device == OffloadDevice::kNvme) ||
                    (optimizer && optimizer->device == OffloadDevice::kNvme);
  if (param && param->device != OffloadDevice::kNvme) {
    notes("zero_optimization.offload_param",
          {"nvme_path", "buffer_count", "buffer_size", "max_in_cpu"}, "unless device is nvme");
  }
  if (optimizer && optimizer->device != OffloadDevice::kNvme) {
    notes("zero_optimization.offload_optimizer",
          {"nvme_path", "buffer_count", "fast_init", "pipeline_read", "pipeline_write"},
          "unless device is nvme");
  }
  if (optimizer && !optimizer->super_offload) {
    note("zero_optimization.offload_optimizer.cpuadam_cores_perc", "unless super_offload is true");
  }
  if (const auto& zenflow = c_.zero_optimization.zenflow) {
    const std::string_view section = "zero_optimization.zenflow";
    if (zenflow->select_strategy == ZenflowStrategy::kAuto) {
      notes(section, {"select_interval"}, "where select_strategy is auto, which is every epoch");
    }
    if (zenflow->update_interval) notes(section, {"auto_ratio"}, "unless update_interval is auto");
    if (!zenflow->overlap_step) {
      notes(section, {"pt_reserved_cores_perc"}, "unless overlap_step is true");
    }
  }
  if (!nvme) all_in("aio", "", "unless something is offloaded to nvme");
}

void Rules::precision() {
  if (c_.fp16.enabled && c_.fp16.loss_scale != 0.0) {
    notes("fp16",
          {"initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis",
           "min_loss_scale"},
          "with a static loss scale");
  } else if (c_.fp16.enabled && c_.zero_optimization.stage == 0) {
    notes("fp16", {"hysteresis", "consecutive_hysteresis"},
          "at ZeRO stage 0, where every overflow halves the scale");
  }
}

bool ties_embedding(const ModelSection& model) {
  const std::optional<ModelConfig> described = described_model(model);  // a folder's says it itself
  return described && ties_embeddings(*described);
}

void Rules::reduction() {
  if (c_.sparse_gradients && ties_embedding(c_.model)) {
    note("sparse_gradients",
         "where the embedding's table is the head's weight, too (model.tie_word_embeddings), whose "
         "gradient has every row");
  }
  if (c_.prescale_gradients) note("gradient_predivide_factor", "with prescale_gradients");
  if (!c_.sequence_parallel_size) note("data_parallel_size", "without sequence_parallel_size");
  if (c_.sequence_parallel_size.value_or(1) == 1) {
    note("seq_parallel_communication_data_type", "without sequence parallelism");
    note("sequence_parallel_attention", "without sequence parallelism");
    note("sequence_parallel_ring_size", "without sequence parallelism");
  } else {
    if (c_.sequence_parallel_attention != SequenceSplit::kRing) {
      note("sequence_parallel_ring_size", "unless sequence_parallel_attention is ring");
    }
    note("communication_data_type",
         "with sequence parallelism, where seq_parallel_communication_data_type is the one");
  }
  if (tensor_ranks(c_) == 1) {
    notes("tensor_parallel", {"tp.tp_grain_size", "sequence_parallel"},
          "without tensor parallelism");
    all_in("tensor_parallel.partition_config", "", "without tensor parallelism");
  }
  if (!pipeline_split(c_.pipeline).is_cut()) {
    notes("pipeline", {"partition", "schedule", "chunks", "pipe_partitioned", "grad_partitioned"},
          "with one stage");
  } else {
    note("train.cuda_graphs", "with stages of a pipeline, whose steps are given kernel by kernel");
    if (c_.pipeline.schedule != PipelineOrder::kInterleaved) {
      note("pipeline.chunks", "unless schedule is interleaved");
    }
    if (tensor_ranks(c_) == 1) {
      notes("pipeline", {"pipe_partitioned", "grad_partitioned"}, "without tensor parallelism");
    }
  }
  if (!c_.train.sample_prompt) note("train.sample_length", "without sample_prompt");
  if (c_.data.validation.empty() && c_.data.validation_fraction == 0) {
    if (!c_.train.sample_prompt) note("train.eval_every", "without validation data");
    note("train.eval_batches", "without validation data");
  }
}

void Rules::preference() {
  if (!c_.preference) return;
  const PreferenceLossType type = c_.preference->loss_type;
  const std::string why = fmt::format("with loss_type {}", enum_name(type));
  if (!learns_likelihood(type)) note("preference.cpo_alpha", why);
  if (type != PreferenceLossType::kSimpo) note("preference.simpo_gamma", why);
}

void Rules::insight() {
  if (!c_.comms_logger.enabled) return;  // and so the whole section
  if (c_.comms_logger.prof_all) {
    note("comms_logger.prof_ops", "where prof_all is true, which records all operations");
  } else if (c_.comms_logger.prof_ops.empty()) {
    note("comms_logger.enabled", "where prof_all is false and prof_ops names no operation");
  }
}

// Notes what stands in sections that are off. A section whose switch stands deeper is left out:
// what it says is enough.
void Rules::sections_off(const std::vector<SectionOff>& off) {
  for (const SectionOff& part : off) {
    const bool own_switch = part.key.find('.', part.path.size() + 1) == std::string::npos;
    if (own_switch && part.path != "zero_optimization") {
      all_in(part.path, part.key, fmt::format("while {}", part.why));
    }
  }
}

void add_notes(const InertKeys& rule, const Origins& origins, Problems& problems) {
  if (rule.kind == InertKeys::kKey) {
    const auto given = origins.find(std::string_view(rule.path));
    if (given != origins.end()) problems.note(rule.path, given->second, rule.why);
    return;
  }
  const std::string prefix = rule.path + ".";
  for (auto at = origins.lower_bound(prefix); at != origins.end(); ++at) {
    const std::string_view path = at->first;
    if (!path.starts_with(prefix)) break;
    const bool direct = path.find('.', prefix.size()) == std::string_view::npos;
    if (direct && rule.covers(path)) problems.note(std::string(path), at->second, rule.why);
  }
}

// Tells whether a value is wrong: then it does not matter what it would do.
bool is_refused(std::string_view path, const Problems& problems) {
  return std::ranges::any_of(problems.all(), [&](const Problem& problem) {
    return problem.severity == Severity::kError && problem.path == path;
  });
}

}  // namespace

bool InertKeys::covers(std::string_view other) const {
  if (kind == kKey) return is_within(other, path);
  return other != path && is_within(other, path) && (but.empty() || !is_within(other, but));
}

std::vector<InertKeys> inert_keys(const Config& config, const Effects& effects) {
  Rules rules(config);
  rules.zero();
  rules.offload();
  rules.precision();
  rules.reduction();
  rules.preference();
  rules.insight();
  rules.sections_off(effects.off);
  return rules.take();
}

void note_inert_keys(const Config& config, const Effects& effects, const Origins& origins,
                     Problems& problems) {
  const std::vector<InertKeys> rules = inert_keys(config, effects);
  for (const InertKeys& rule : rules) add_notes(rule, origins, problems);
  for (const FixedKey& key : effects.fixed) {
    const auto given = origins.find(std::string_view(key.path));
    const bool inert =
        std::ranges::any_of(rules, [&](const InertKeys& rule) { return rule.covers(key.path); });
    if (given == origins.end() || inert || is_refused(key.path, problems)) continue;
    problems.note(key.path, given->second, key.message);
  }
}

void soften_what_is_off(const Effects& effects, Problems& problems) {
  for (const SectionOff& part : effects.off) {
    problems.soften(
        [&](const Problem& problem) {
          return is_within(problem.path, part.path) && !may_switch(problem, part);
        },
        fmt::format("while {} is off", part.path));
  }
}

}  // namespace ds
