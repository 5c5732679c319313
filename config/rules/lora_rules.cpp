// Rules of low-rank adapters: what their keys need, and what excludes them.
#include <fmt/format.h>

#include "config/elastic_options.h"
#include "config/rules.h"

namespace ds::detail {

namespace {

// Keys that the adapters to begin with say by themselves, where they say something else.
void adapter_rules(const RuleContext& r, const LoraConfig& lora) {
  const auto refuse = [&](const char* key, bool is_said) {
    if (!is_said) return;
    r.refuse_early(fmt::format("lora.{}", key),
                   "is said by the adapter_config.json of lora.adapter; remove one of them");
  };
  const LoraConfig silent;
  refuse("r", lora.rank != silent.rank);
  refuse("lora_alpha", lora.alpha != silent.alpha);
  refuse("target_modules", lora.target_modules != silent.target_modules);
  refuse("exclude_modules", !lora.exclude_modules.empty());
  refuse("rank_pattern", !lora.rank_pattern.members().empty());
  refuse("alpha_pattern", !lora.alpha_pattern.members().empty());
  refuse("layers_to_transform", !lora.layers_to_transform.empty());
  refuse("layers_pattern", !lora.layers_pattern.empty());
  refuse("modules_to_save", !lora.modules_to_save.empty());
  refuse("bias", lora.bias != silent.bias);
  refuse("use_rslora", lora.scales_by_root);
  refuse("use_dora", lora.has_magnitudes);
  if (!r.config.model.folder) {
    r.refuse_early("lora.adapter",
                   "belongs to the weights of a model; give its folder as model.folder");
  }
}

void base_rules(const RuleContext& r, const LoraConfig& lora) {
  const BaseFormat format = base_format_of(lora);
  const ZeroConfig& zero = r.config.zero_optimization;
  if (format == BaseFormat::kModel) {
    if (lora.base_block) r.note("lora.base_block", "has no effect without a base_format");
    if (!lora.double_quantization) {
      r.note("lora.double_quantization", "has no effect without base_format nf4");
    }
    return;
  }
  if (lora.has_magnitudes && tensor_split(r.config).ranks > 1) {
    r.refuse_early(
        "lora.use_dora",
        "excludes lora.base_format beside tensor parallelism: ranks have blocks of their "
        "own, and magnitudes begin as the lengths of whole weights; remove one of them");
  }
  if (!lora.double_quantization && format != BaseFormat::kNf4) {
    r.note("lora.double_quantization", "has no effect on a base that is not nf4");
  }
  if (zero.zero_quantized_weights) {
    r.note("zero_optimization.zero_quantized_weights",
           "is for the other weights: those of lora.base_format travel as the codes that they are");
  }
  if (zero.zero_hpz_partition_size > 1) {
    r.note("zero_optimization.zero_hpz_partition_size",
           "is for the other weights: those of lora.base_format have no second copy");
  }
}

}  // namespace

void lora_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (!c.lora) {
    if (c.checkpoint.exclude_frozen_parameters.value_or(false)) {
      r.refuse_early("checkpoint.exclude_frozen_parameters",
                     "is for lora; checkpoints of train.freeze and train.train_only are whole, as "
                     "the model in final/ is; remove it");
    }
    return;
  }
  base_rules(r, *c.lora);
  for (const LoraConflict& conflict : conflicts_of(*c.lora)) {
    r.refuse_early(fmt::format("lora.{}", conflict.key), conflict.why);
  }
  if (c.lora->adapter) adapter_rules(r, *c.lora);
  for (const auto& [key, is_said] : {std::pair{"train.freeze", !c.train.freeze.empty()},
                                     std::pair{"train.train_only", !c.train.train_only.empty()}}) {
    if (!is_said) continue;
    r.refuse_early(key,
                   "excludes lora, with which adapters train, and of the model what "
                   "lora.modules_to_save and lora.bias say; remove one of them");
  }
  if (c.lora->dropout > 0 && tensor_split(c).ranks > 1) {
    r.refuse_early("lora.lora_dropout",
                   "needs whole inputs, and tensor parallelism shares those of some layers out; "
                   "remove one of them");
  }
  if (c.lora->has_magnitudes && c.lora->dropout > 0) {
    r.refuse_early("lora.use_dora",
                   "excludes lora_dropout: magnitudes of what is dropped are not built; remove one "
                   "of them");
  }
  if (c.lora->has_magnitudes && !c.lora->init_lora_weights.as_boolean() &&
      !c.lora->init_lora_weights.is_string()) {
    r.refuse_early("lora.init_lora_weights",
                   "false excludes use_dora, whose magnitudes begin as the lengths of the model's "
                   "own weights; remove one of them");
  }
  if (c.lora->has_magnitudes && !c.model.folder) {
    r.refuse_early("lora.use_dora",
                   "needs model.folder: magnitudes begin as the lengths of its "
                   "weights");
  }
  if (c.checkpoint.exclude_frozen_parameters.value_or(false) && !c.model.folder) {
    r.refuse_early("checkpoint.exclude_frozen_parameters",
                   "needs model.folder, from which the model's own weights are read; remove it");
  }
  if (c.train.resume_from) {
    r.refuse_early("train.resume_from",
                   "excludes lora: a checkpoint of DeepSpeed has state of all weights; take its "
                   "weights as model.folder (dslaunch convert)");
  }
  if (!c.model.folder && !c.train.resume_from) {
    r.note("lora",
           "the model's own weights are frozen as they are drawn at random: without "
           "model.folder there is nothing that adapters could adapt");
  }
}

}  // namespace ds::detail
