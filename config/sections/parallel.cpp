#include "config/sections/parallel.h"

namespace ds {

std::span<const EnumName> names_of(TpModel) {
  static constexpr EnumName kNames[] = {
      {"llama", static_cast<int>(TpModel::kLlama)},
      {"bloom", static_cast<int>(TpModel::kBloom)},
      {"chatglm", static_cast<int>(TpModel::kChatglm)},
      {"mixtral", static_cast<int>(TpModel::kMixtral)},
      {"deepseek_v2", static_cast<int>(TpModel::kDeepseekV2)},
      {"qwen2", static_cast<int>(TpModel::kQwen2)},
      {"phi3", static_cast<int>(TpModel::kPhi3)},
  };
  return kNames;
}

std::span<const EnumName> names_of(PartitionType) {
  static constexpr EnumName kNames[] = {
      {"row", static_cast<int>(PartitionType::kRow)},
      {"column", static_cast<int>(PartitionType::kColumn)},
      {"skip", static_cast<int>(PartitionType::kSkip)},
  };
  return kNames;
}

std::span<const EnumName> names_of(ScoreFunction) {
  static constexpr EnumName kNames[] = {
      {"auto", static_cast<int>(ScoreFunction::kAuto)},
      {"softmax", static_cast<int>(ScoreFunction::kSoftmax)},
      {"sigmoid", static_cast<int>(ScoreFunction::kSigmoid)},
  };
  return kNames;
}

std::span<const EnumName> names_of(ScoreApply) {
  static constexpr EnumName kNames[] = {
      {"auto", static_cast<int>(ScoreApply::kAuto)},
      {"pre", static_cast<int>(ScoreApply::kPre)},
      {"post", static_cast<int>(ScoreApply::kPost)},
  };
  return kNames;
}

std::span<const EnumName> names_of(PipelineOrder) {
  static constexpr EnumName kNames[] = {
      {"gpipe", static_cast<int>(PipelineOrder::kGpipe)},
      {"1f1b", static_cast<int>(PipelineOrder::k1F1B)},
      {"interleaved", static_cast<int>(PipelineOrder::kInterleaved)},
      {"zb_h1", static_cast<int>(PipelineOrder::kZeroBubbleH1)},
      {"zb_v", static_cast<int>(PipelineOrder::kZeroBubbleV)},
  };
  return kNames;
}

void fields(Visitor& v, PipelineConfig& c) {
  v.field("stages", c.stages,
          {.meaning = "Number of stages.",
           .effect = Effect::kUsed,
           .min = 0,
           .own_range = true,
           .unset_text = "auto",
           .unset_meaning = "one stage"});
  v.field(
      "partition", c.partition,
      {.meaning = "Partitioning method: uniform (layers), parameters, type:PATTERN (layers whose "
                  "class name has it), or best (work, which an embedding has little of).",
       .effect = Effect::kUsed});
  v.field("schedule", c.schedule,
          {.meaning = "In which order a stage works on micro-batches: GPipe, 1F1B, interleaved "
                      "1F1B, zero-bubble H1 or V.",
           .effect = Effect::kUsed});
  v.field("chunks", c.chunks,
          {.meaning = "Pieces of the model that each stage of the interleaved schedule has.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field("seed_layers", c.seed_layers,
          {.meaning = "A separate seed per layer.",
           .effect = Effect::kAlwaysSo,
           .here = "each parameter has random numbers of its own, by its name",
           .only = {"true"}});
  v.field(
      "activation_checkpoint_interval", c.activation_checkpoint_interval,
      {.meaning = "Layers per activation checkpoint; 0 off.", .effect = Effect::kUsed, .min = 0});
  v.field("pipe_partitioned", c.pipe_partitioned,
          {.meaning = "Partition activations sent between stages over the model-parallel ranks.",
           .effect = Effect::kUsed,
           .refuse_text = true});
  v.field("grad_partitioned", c.grad_partitioned,
          {.meaning = "Partition activation gradients likewise.",
           .effect = Effect::kUsed,
           .refuse_text = true});
  v.field("use_reentrant", c.use_reentrant,
          {.meaning = "Kind of activation checkpointing.",
           .effect = Effect::kAlwaysSo,
           .here = "a checkpoint is run again on a tape of its own",
           .only = {kNoValue}});
}

void fields(Visitor& v, TpSizeConfig& c) {
  v.field("tp_size", c.tp_size,
          {.meaning = "Tensor-parallel degree of the parser.",
           .effect = Effect::kUsed,
           .min = 1,
           .own_range = true});
  v.field("tp_grain_size", c.tp_grain_size,
          {.meaning = "Granularity of shard sizes.",
           .effect = Effect::kUsed,
           .min = 1,
           .own_range = true});
}

void fields(Visitor& v, LayerSpecConfig& c) {
  constexpr const char* kByHeads = "of joined queries, keys and values ranks share heads";
  v.field("patterns", c.patterns,
          {.meaning = "Regular expressions on parameter names.", .effect = Effect::kUsed});
  v.field("partition_type", c.partition_type,
          {.meaning = "Kind of partition; another than the model family's is refused.",
           .effect = Effect::kUsed});
  v.field("shape", c.shape,
          {.meaning = "Sub-parameter shape of fused weights.",
           .effect = Effect::kAlwaysSo,
           .here = kByHeads});
  v.field("partition_dim", c.partition_dim,
          {.meaning = "Dimension to split when shape is given.",
           .effect = Effect::kAlwaysSo,
           .here = kByHeads});
  v.field("model_types", c.model_types,
          {.meaning = "Restricts the rule to model types.", .effect = Effect::kUsed});
}

void fields(Visitor& v, PartitionConfig& c) {
  v.field("use_default_specs", c.use_default_specs,
          {.meaning = "Merge with the preset: what no rule is for, the model family says.",
           .effect = Effect::kUsed});
  v.list("layer_specs", c.layer_specs,
         {.meaning = "Ordered rules; the first that matches counts.", .effect = Effect::kUsed});
}

void fields(Visitor& v, TensorParallelConfig& c) {
  v.field("autotp_size", c.autotp_size,
          {.meaning = "Tensor-parallel degree; 0 off.",
           .effect = Effect::kUsed,
           .min = 0,
           .own_range = true});
  v.field("tp_overlap_comm", c.tp_overlap_comm,
          {.meaning = "Overlap the tensor-parallel allreduce with computation.",
           .effect = Effect::kAlwaysSo,
           .here = "sums over the ranks of a layer are made in turn with what is computed"});
  v.section("tp", c.tp,
            {.meaning = "Sizes of the tensor-parallel group.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues});
  v.field("sequence_parallel", c.sequence_parallel,
          {.meaning = "Share out by rows what lies between the layers that ranks share: norms, "
                      "dropout and the residual stream.",
           .effect = Effect::kUsed});
  v.field("dtype", c.dtype,
          {.meaning = "Model data type.",
           .effect = Effect::kAlwaysSo,
           .here = "weights have the type that fp16 and bf16 say"});
  v.field("preset_model", c.preset_model,
          {.meaning = "Built-in partition rules.",
           .effect = Effect::kAlwaysSo,
           .here = "each model family says itself how its layers are split"});
  v.section("partition_config", c.partition_config,
            {.meaning = "Own partition rules, which are compared with the model family's."});
}

void fields(Visitor& v, ExpertParallelConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Automatic expert parallelism."});
  v.field("autoep_size", c.autoep_size, {.meaning = "Expert-parallel degree.", .min = 1});
  v.field("expert_tensor_parallel_size", c.expert_tensor_parallel_size,
          {.meaning = "Tensor parallelism inside an expert.", .min = 1});
  v.field("preset_model", c.preset_model, {.meaning = "Built-in MoE layout."});
  v.field("moe_layer_pattern", c.moe_layer_pattern, {.meaning = "Name pattern of MoE layers."});
  v.field("expert_pattern", c.expert_pattern, {.meaning = "Name pattern of experts."});
  v.field("router_pattern", c.router_pattern, {.meaning = "Name pattern of the router."});
  v.field("use_grouped_mm", c.use_grouped_mm, {.meaning = "Grouped matrix products."});
  v.field("top_k", c.top_k, {.meaning = "Experts per token.", .unset_text = "auto"});
  v.field("score_func", c.score_func, {.meaning = "Router score function."});
  v.field("score_apply", c.score_apply, {.meaning = "Apply scores before or after the experts."});
  v.field("load_balance_coeff", c.load_balance_coeff,
          {.meaning = "Balance loss coefficient; only null is supported."});
}

void fields(Visitor& v, CompileConfig& c) {
  v.field("deepcompile", c.deepcompile,
          {.meaning = "Compiler-driven ZeRO.", .effect = Effect::kNotYet});
  v.field("free_activation", c.free_activation,
          {.meaning = "Free activations early.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("free_activation_threshold", c.free_activation_threshold,
          {.meaning = "Least size in bytes for that.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("offload_activation", c.offload_activation,
          {.meaning = "Move saved activations to host memory.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("offload_activation_pin_memory", c.offload_activation_pin_memory,
          {.meaning = "Pin those host buffers.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("offload_opt_states", c.offload_opt_states,
          {.meaning = "Move optimizer state out during forward and backward.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("double_buffer", c.double_buffer,
          {.meaning = "Double buffering.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("symmetric_memory", c.symmetric_memory,
          {.meaning = "Symmetric memory.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("debug_log", c.debug_log,
          {.meaning = "Dump graphs.", .effect = Effect::kAlwaysSo, .here = "no graph is compiled"});
  v.field("offload_parameters", c.offload_parameters,
          {.meaning = "Offload parameters.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("sync_before_reduce", c.sync_before_reduce,
          {.meaning = "Synchronise before reduction.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("sync_after_reduce", c.sync_after_reduce,
          {.meaning = "Synchronise after reduction.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("sync_before_allgather", c.sync_before_allgather,
          {.meaning = "Synchronise before allgather.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("sync_after_allgather", c.sync_after_allgather,
          {.meaning = "Synchronise after allgather.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("keep_int_input_tensors", c.keep_int_input_tensors,
          {.meaning = "Keep values of integer inputs.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("keep_all_input_tensors", c.keep_all_input_tensors,
          {.meaning = "Keep values of all inputs.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
  v.field("passes", c.passes,
          {.meaning = "Passes: z1, z3, autosp, autotp.",
           .effect = Effect::kAlwaysSo,
           .here = "no graph is compiled"});
}

void fields(Visitor& v, HybridEngineConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Training/generation hybrid engine: switch."});
  v.field("max_out_tokens", c.max_out_tokens,
          {.meaning = "Training/generation hybrid engine: longest generation.",
           .min = 1,
           .own_range = true});
  v.field("inference_tp_size", c.inference_tp_size,
          {.meaning = "Training/generation hybrid engine: tensor parallelism while generating.",
           .min = 1,
           .own_range = true});
  v.field("release_inference_cache", c.release_inference_cache,
          {.meaning = "Training/generation hybrid engine: free the cache between generations."});
  v.field("pin_parameters", c.pin_parameters,
          {.meaning = "Training/generation hybrid engine: keep parameters in place."});
  v.field("tp_gather_partition_size", c.tp_gather_partition_size,
          {.meaning = "Training/generation hybrid engine: layers gathered at once.",
           .min = 1,
           .own_range = true});
  v.field("enable_cuda_graph", c.enable_cuda_graph,
          {.meaning = "Training/generation hybrid engine: capture decoding as a graph."});
}

}  // namespace ds
