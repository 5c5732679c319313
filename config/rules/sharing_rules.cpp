// Rules of a model that ranks share: by sequences, by layers and by stages of a pipeline.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/elastic_options.h"
#include "config/rules.h"
#include "config/sections/near_ranks.h"
#include "config/sections/sequence_split.h"
#include "config/sections/split/partition_rules.h"
#include "config/sections/split/pipeline.h"
#include "config/sections/split/tensor.h"
#include "core/text/name_pattern.h"

namespace ds::detail {

namespace {

bool cuts_neighbours(const ZeroConfig& zero) { return near_ranks(zero) || is_near_by_host(zero); }

// How long the sequences are is known where the model is; a folder's is looked at later.
void sequence_rules(const RuleContext& r) {
  const Config& c = r.config;
  const std::string key = "sequence_parallel_size";
  const int64_t ranks = c.sequence_parallel_size.value_or(1);
  if (ranks <= 1) return;
  if (cuts_neighbours(c.zero_optimization)) {
    r.refuse_early(key,
                   "excludes mics_shard_size, zero_hpz_partition_size and "
                   "zero_quantized_gradients: weights are shared out over all ranks that have the "
                   "same, and neighbourhoods are cut out of those with other samples; give one of "
                   "them");
  }
  if (const std::string why = ring_size_conflict(sequence_sharing(c)); !why.empty()) {
    return r.refuse_early("sequence_parallel_ring_size", why);
  }
  const auto refuse_conflict = [&](const ModelConfig& model) {
    const ModelDimensions sizes = dimensions(model);
    const std::string why = sequence_conflict(
        sizes, c.data.sequence_length.value_or(sizes.positions), sequence_sharing(c));
    if (!why.empty()) r.refuse_early(key, why);
  };
  if (const auto described = described_model(c.model)) refuse_conflict(*described);
}

void partition_rules(const RuleContext& r, const ModelConfig& model) {
  const auto& rules = r.config.tensor_parallel.partition_config;
  if (!rules) return;
  const std::string key = "tensor_parallel.partition_config";
  const PartitionFindings found = follow_rules(model, *rules);
  if (!found.conflict.empty()) return r.refuse_early(key, found.conflict);
  for (const std::string& note : found.notes()) r.note(key, note);
}

void partitioned_activations_rules(const RuleContext& r, const TensorSplit& split) {
  if (!r.config.activation_checkpointing.partition_activations) return;
  const char* const key = "activation_checkpointing.partition_activations";
  if (split.ranks <= 1) {
    r.note(key, "no ranks share layers (tensor_parallel), so that none has what another one keeps");
  } else if (split.shares_rows) {
    r.note(key, "tensor_parallel.sequence_parallel has shared out by rows already what is kept");
  }
}

void tensor_rules(const RuleContext& r) {
  const Config& c = r.config;
  const TensorSplit split = tensor_split(c);
  partitioned_activations_rules(r, split);
  if (split.ranks <= 1) return;
  const std::string key(tensor_key(c));
  if (cuts_neighbours(c.zero_optimization)) {
    r.refuse_early(key,
                   "excludes mics_shard_size, zero_hpz_partition_size and "
                   "zero_quantized_gradients, whose neighbours are counted without the ranks that "
                   "share layers; give one of them");
  }
  if (c.tensor_parallel.sequence_parallel && c.pipeline.stages.value_or(1) > 1) {
    r.refuse_early("tensor_parallel.sequence_parallel",
                   "excludes pipelines, whose stages send each other all rows; remove it, or set "
                   "pipeline.stages to 1");
  }
  if (!is_elementwise(c.optimizer)) {
    r.refuse_early(key,
                   "excludes optimizers of whole parameters (Lamb, Muon and the 1-bit ones): of a "
                   "layer that is split no rank has them; take another, as AdamW");
  }
  if (c.zero_optimization.zenflow) {
    r.refuse_early(key,
                   "excludes zenflow, which weighs the columns of whole matrices: of a layer that "
                   "is split no rank has them; remove one of them");
  }
  if (c.sparse_gradients) {
    r.refuse_early(key,
                   "excludes sparse_gradients, which send rows of whole tables: each rank has a "
                   "part of the vocabulary; remove one of them");
  }
  const auto refuse_conflict = [&](const ModelConfig& model) {
    const std::string why = tensor_conflict(model, split);
    if (!why.empty()) r.refuse_early(key, why);
    partition_rules(r, model);
  };
  if (const auto described = described_model(c.model)) refuse_conflict(*described);
}

bool is_known_partition(std::string_view method) {
  const auto is_in_any_case = [](std::string_view text, std::string_view wanted) {
    return std::ranges::equal(
        text, wanted, [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  };
  constexpr std::string_view kByType = "type:";
  return is_in_any_case(method, "best") || is_in_any_case(method, "uniform") ||
         is_in_any_case(method, "parameters") ||
         is_in_any_case(method.substr(0, kByType.size()), kByType);
}

// What a stage cannot do, having a part of the layers, with several micro-batches under way.
void refuse_beside_stages(const RuleContext& r) {
  const Config& c = r.config;
  const std::string key = "pipeline.stages";
  if (c.zero_optimization.stage > 1) {
    r.refuse_early(key,
                   fmt::format("excludes ZeRO stage {}: gradients of several micro-batches add up "
                               "until the step ends, so every rank keeps them whole; take "
                               "zero_optimization.stage 0 or 1",
                               c.zero_optimization.stage));
  }
  const auto& state = c.zero_optimization.offload_optimizer;
  if (state && state->super_offload && c.zero_optimization.stage == 1) {
    r.refuse_early(
        key,
        "excludes offload_optimizer.super_offload: gradients of a pipeline are final when "
        "the step ends, so that nothing is left to update beside; remove it");
  }
  if (c.zero_optimization.zenflow) {
    r.refuse_early(key,
                   "excludes zenflow, which chooses columns and intervals by gradients that no "
                   "stage has all of; remove one of them");
  }
  if (is_one_bit(c.optimizer)) {
    r.refuse_early(key,
                   "excludes 1-bit optimizers, which exchange what they need themselves; take "
                   "another, as AdamW");
  }
  if (c.sparse_gradients) {
    r.refuse_early(key,
                   "excludes sparse_gradients, which send rows after each micro-batch; remove one "
                   "of them");
  }
  if (c.communication.backend == CommunicationBackend::kNccl &&
      c.pipeline.schedule != PipelineOrder::k1F1B) {
    r.refuse_early("pipeline.schedule",
                   "sends before its peer receives, which NCCL waits for; take 1f1b, or another "
                   "communication.backend");
  }
  if (c.eigenvalue.enabled) {
    r.refuse_early(
        key, "excludes eigenvalue, which takes gradients of whole models; remove one of them");
  }
  if (c.flops_profiler.enabled) {
    r.refuse_early(key,
                   "excludes flops_profiler, which measures a whole forward pass on one rank; turn "
                   "it off, or profile with one stage");
  }
}

// Each rank goes on with the text by itself, and so needs the whole model.
void sample_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (!c.train.sample_prompt) return;
  const bool cut = pipeline_split(c.pipeline).is_cut();
  if (!cut && tensor_split(c).ranks <= 1) return;
  r.refuse_early(
      "train.sample_prompt",
      fmt::format("ranks that have a part of the model ({}) cannot go on with a text while "
                  "they train; remove it, and run `dslaunch generate` on a checkpoint",
                  cut ? "pipeline.stages" : tensor_key(c)));
}

void pipeline_rules(const RuleContext& r) {
  const Config& c = r.config;
  if (!is_known_partition(c.pipeline.partition)) {
    r.refuse_early("pipeline.partition",
                   fmt::format("\"{}\", expected best, uniform, parameters or type:PATTERN",
                               c.pipeline.partition));
  } else if (const size_t colon = c.pipeline.partition.find(':');
             colon != std::string::npos && pipeline_split(c.pipeline).stages > 1) {
    const std::string why = why_no_pattern(c.pipeline.partition.substr(colon + 1));
    if (!why.empty()) r.refuse_early("pipeline.partition", why);
  }
  const auto& checkpoints = c.activation_checkpointing;
  const int64_t interval = c.pipeline.activation_checkpoint_interval;
  const bool says_layers = r.given("activation_checkpointing.layers_per_checkpoint") &&
                           checkpoints.layers_per_checkpoint != interval;
  if (interval > 0 && checkpoints.enabled &&
      (says_layers || checkpoints.granularity != RecomputeGranularity::kBlock)) {
    r.refuse_early("pipeline.activation_checkpoint_interval",
                   "contradicts layers_per_checkpoint or granularity of activation_checkpointing; "
                   "give one of them");
  }
  const PipelineSplit split = pipeline_split(c.pipeline);
  if (!split.is_cut()) return;
  refuse_beside_stages(r);
  if (c.gradient_accumulation_steps) {
    const std::string why = micro_batch_conflict(split, *c.gradient_accumulation_steps);
    if (!why.empty()) r.refuse_early("pipeline.schedule", why);
  }
  const auto refuse_conflict = [&](const ModelConfig& model) {
    const std::string why = pipeline_conflict(model, split);
    if (!why.empty()) r.refuse_early("pipeline.stages", why);
  };
  if (const auto described = described_model(c.model)) refuse_conflict(*described);
}

}  // namespace

void check_sharing_rules(const RuleContext& context) {
  sequence_rules(context);
  tensor_rules(context);
  sample_rules(context);
  pipeline_rules(context);
}

}  // namespace ds::detail
