#include "config/config.h"

#include <algorithm>

namespace ds {

std::span<const EnumName> names_of(GradientReduction) {
  static constexpr EnumName kNames[] = {
      {"mean", static_cast<int>(GradientReduction::kMean)},
      {"sum", static_cast<int>(GradientReduction::kSum)},
  };
  return kNames;
}

std::optional<FloatType> gathered_dtype(const Config& config) {
  const ZeroConfig& zero = config.zero_optimization;
  if (zero.stage != 3 || !zero.stage3_gather_16bit_weights_on_model_save) return std::nullopt;
  if (config.bf16.enabled) return FloatType::kBf16;
  if (config.fp16.enabled) return FloatType::kFp16;
  return std::nullopt;
}

int64_t printing_interval(const Config& config) {
  return std::max<int64_t>(0, config.steps_per_print.value_or(0));
}

std::optional<std::string_view> key_without_masters(const Config& config) {
  if (config.amp.enabled && config.amp.opt_level == AmpLevel::kO3) return "amp.opt_level";
  if (config.fp16.enabled && config.fp16.fp16_master_weights_and_grads) {
    return "fp16.fp16_master_weights_and_grads";
  }
  if (config.bf16.enabled && config.bf16.bf16_master_weights_and_grads) {
    return "bf16.bf16_master_weights_and_grads";
  }
  return std::nullopt;
}

namespace {

void batch_fields(Visitor& v, Config& c) {
  v.field("train_batch_size", c.train_batch_size,
          {.meaning = "Global number of samples consumed per optimizer update, over all "
                      "data-parallel ranks and all accumulation steps.",
           .effect = Effect::kUsed,
           .above = 0,
           .refuse_text = true,
           .deepspeed_refuses = true});
  v.field("train_micro_batch_size_per_gpu", c.train_micro_batch_size_per_gpu,
          {.meaning = "Samples that one rank processes in one forward/backward pass.",
           .effect = Effect::kUsed,
           .above = 0,
           .refuse_text = true,
           .deepspeed_refuses = true});
  v.field("gradient_accumulation_steps", c.gradient_accumulation_steps,
          {.meaning = "Micro-batches whose gradients are summed locally before one reduction and "
                      "one optimizer update.",
           .effect = Effect::kUsed,
           .above = 0,
           .refuse_text = true,
           .deepspeed_refuses = true});
  v.retired("train_step_batch_size", "train_micro_batch_size_per_gpu",
            "Older name of the batch per rank.");
  v.field("managed_gradient_accumulation", c.managed_gradient_accumulation,
          {.meaning = "When false the caller owns the accumulation boundary: every step() call "
                      "applies an update.",
           .effect = Effect::kNotYet});
  v.field("sequence_parallel_size", c.sequence_parallel_size,
          {.meaning = "Degree of sequence parallelism; divides the world size that enters the "
                      "batch triangle when no mpu or mesh is given.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field("data_parallel_size", c.data_parallel_size,
          {.meaning = "Data-parallel degree of the device mesh; only read together with "
                      "sequence_parallel_size.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field("sequence_parallel_attention", c.sequence_parallel_attention,
          {.meaning = "How ranks that share sequences make attention: ulysses, each for some heads "
                      "of whole sequences; ring, keys and values pass from rank to rank, and heads "
                      "need not divide.",
           .effect = Effect::kUsed});
  v.field("sequence_parallel_ring_size", c.sequence_parallel_ring_size,
          {.meaning = "Of the ranks that share sequences, how many keys and values pass, where "
                      "sequence_parallel_attention is ring. In each place of the ring are the "
                      "others, neighbours that exchange heads as with ulysses: "
                      "sequence_parallel_size divided by this.",
           .effect = Effect::kUsed,
           .min = 1,
           .unset_meaning = "all of them"});
}

void run_fields(Visitor& v, Config& c) {
  v.field("gradient_clipping", c.gradient_clipping,
          {.meaning = "Clip the global L2 gradient norm to this value; 0 disables clipping. With "
                      "Muon gradients are clipped, too, before its momentum takes them and its "
                      "update is orthogonalised; DeepSpeed clips the orthogonalised update.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field(
      "steps_per_print", c.steps_per_print,
      {.meaning = "Print step, skipped-step count, learning rate and momentum every so many steps; "
                  "null, Infinity, and what is not above 0: never.",
       .effect = Effect::kUsed});
  v.field(
      "wall_clock_breakdown", c.wall_clock_breakdown,
      {.meaning = "Time forward, backward, gradient reduction and step; on a GPU, steps are then "
                  "not recorded.",
       .effect = Effect::kUsed});
  v.field("memory_breakdown", c.memory_breakdown,
          {.meaning = "Report memory use at fixed points and with the micro-step timers.",
           .effect = Effect::kUsed});
  v.field("dump_state", c.dump_state,
          {.meaning = "Print the engine's state after initialisation.", .effect = Effect::kUsed});
  v.field("log_level", c.log_level,
          {.meaning = "Log level of the ranks, set at start-up.",
           .effect = Effect::kUsed,
           .only = {"debug", "info", "warning", "error", "critical"}});
  v.field("vocabulary_size", c.vocabulary_size,
          {.meaning = "Only used to warn when it is no multiple of 8.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field(
      "dataloader_drop_last", c.dataloader_drop_last,
      {.meaning = "Drop an incomplete last batch of an epoch. Otherwise it is filled up with the "
                  "first samples of the next.",
       .effect = Effect::kUsed});
  v.field("graph_harvesting", c.graph_harvesting,
          {.meaning = "Capture short kernel sequences of the bf16 optimizer as a graph.",
           .effect = Effect::kAlwaysSo,
           .here = "train.cuda_graphs records the whole step"});
  v.field("use_data_before_expert_parallelism", c.use_data_before_expert_parallelism,
          {.meaning = "Order of data and expert parallelism in the rank topology.",
           .effect = Effect::kAlwaysSo,
           .here = "there are no experts to place"});
}

void communication_fields(Visitor& v, Config& c) {
  v.field("communication_data_type", c.communication_data_type,
          {.meaning = "Data type in which gradients are averaged across ranks; null follows the "
                      "training precision.",
           .effect = Effect::kUsed,
           .letter_case = LetterCase::kIgnored,
           .deepspeed_refuses = true});
  v.retired("fp32_allreduce", "communication_data_type", "Average gradients in 32-bit floats.");
  v.field("seq_parallel_communication_data_type", c.seq_parallel_communication_data_type,
          {.meaning = "Gradient communication data type used instead of communication_data_type "
                      "when sequence parallelism is active.",
           .effect = Effect::kUsed,
           .letter_case = LetterCase::kIgnored,
           .deepspeed_refuses = true});
  v.field(
      "prescale_gradients", c.prescale_gradients,
      {.meaning = "Divide gradients by the group size before the reduction instead of after it.",
       .effect = Effect::kAlwaysSo,
       .here = "the mean is taken at the loss, before anything is reduced, unless "
               "gradient_predivide_factor says otherwise",
       .only = {"true"}});
  v.field("gradient_predivide_factor", c.gradient_predivide_factor,
          {.meaning = "Divide gradients by this factor before the reduction and multiply by "
                      "factor/world size after it, to keep fp16 sums in range. 1 takes the mean "
                      "before the reduction.",
           .effect = Effect::kUsed,
           .above = 0});
  v.field("gradient_allreduce_op", c.gradient_allreduce_op,
          {.meaning = "Whether gradients are averaged or only summed over data-parallel ranks.",
           .effect = Effect::kNotYet,
           .letter_case = LetterCase::kIgnored,
           .deepspeed_refuses = true});
  v.field("sparse_gradients", c.sparse_gradients,
          {.meaning = "Send other ranks only those rows of the token embedding's gradient that a "
                      "micro-batch has tokens of, with their numbers, where that is less than the "
                      "whole; at ZeRO stage 0. A table that is the head's weight, too, has no such "
                      "rows.",
           .effect = Effect::kUsed});
  v.field("disable_allgather", c.disable_allgather,
          {.meaning = "Historic switch to skip the parameter allgather.",
           .effect = Effect::kAlwaysSo,
           .here = "updated weights are always gathered"});
  v.field("zero_allow_untested_optimizer", c.zero_allow_untested_optimizer,
          {.meaning = "Permits running ZeRO with an optimizer outside the tested set.",
           .effect = Effect::kAlwaysSo,
           .here = "every optimizer here works with every ZeRO stage"});
  v.field("zero_force_ds_cpu_optimizer", c.zero_force_ds_cpu_optimizer,
          {.meaning = "With optimizer offload, insist that a client-supplied optimizer is one of "
                      "the native CPU optimizers.",
           .effect = Effect::kAlwaysSo,
           .here = "there are no optimizers but its own"});
  v.retired("allgather_size", "zero_optimization.allgather_bucket_size",
            "Bucket size that goes with the boolean form of zero_optimization.");
}

void engine_sections(Visitor& v, Config& c) {
  v.section("optimizer", c.optimizer,
            {.meaning = "Selects and parameterises the optimizer that the engine builds."});
  v.section(
      "scheduler", c.scheduler,
      {.meaning =
           "Learning-rate schedule that the engine steps once per successful optimizer update."});
  v.section("fp16", c.fp16,
            {.meaning = "Half-precision training with fp32 master weights and loss scaling.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.section("bf16", c.bf16,
            {.meaning = "bfloat16 training with fp32 master weights and no loss scaling.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.retired("bfloat16", "bf16", "Older spelling of the bf16 section.");
  v.section("amp", c.amp,
            {.meaning = "Automatic mixed precision in the manner of NVIDIA Apex; every key except "
                        "enabled is passed through to its initialiser.",
             .off = "enabled is false"});
  v.section("torch_autocast", c.torch_autocast,
            {.meaning = "Framework-native autocast.", .off = "enabled is false"});
  v.section("data_types", c.data_types, {.meaning = "Data-type overrides."});
  v.section("zero_optimization", c.zero_optimization,
            {.meaning = "ZeRO partitioning of optimizer states, gradients and parameters over the "
                        "data-parallel ranks.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "stage is 0"});
  v.section("aio", c.aio, {.meaning = "Asynchronous file I/O used for NVMe offload."});
  v.section(
      "activation_checkpointing", c.activation_checkpointing,
      {.meaning =
           "Recompute activations in the backward pass, with optional partitioning and offload.",
       .off = "enabled is false"});
  v.section("sparse_attention", c.sparse_attention,
            {.meaning = "Block-sparse attention layout.",
             .effect = Effect::kNotYet,
             .off = "mode is dense"});
  v.section("pipeline", c.pipeline, {.meaning = "Pipeline parallelism."});
  v.section("tensor_parallel", c.tensor_parallel,
            {.meaning = "Tensor parallelism by layer patterns.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .effect = Effect::kNotYet});
  v.section("expert_parallel", c.expert_parallel,
            {.meaning = "Expert parallelism of models with expert layers.",
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
}

void other_sections(Visitor& v, Config& c) {
  v.section("checkpoint", c.checkpoint, {.meaning = "Checkpoint behaviour."});
  v.section("elasticity", c.elasticity,
            {.meaning = "Chooses a global batch size that suits many GPU counts.",
             .off = "enabled is false"});
  v.section("data_efficiency", c.data_efficiency,
            {.meaning = "Curriculum sampling and random layer-wise token dropping."});
  v.section("curriculum_learning", c.curriculum_learning,
            {.meaning = "Older, simpler curriculum: truncates sequences to the current difficulty.",
             .off = "enabled is false"});
  v.section("progressive_layer_drop", c.progressive_layer_drop,
            {.meaning = "Drops layers with a probability that grows over training.",
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
  v.section("compression_training", c.compression_training,
            {.meaning = "Seven compression components for training."});
}

void service_sections(Visitor& v, Config& c) {
  v.section("tensorboard", c.tensorboard,
            {.meaning = "Writes metrics in TensorBoard format.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.section("wandb", c.wandb,
            {.meaning = "Sends metrics to Weights & Biases.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.section("comet", c.comet,
            {.meaning = "Sends metrics to Comet.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.section("csv_monitor", c.csv_monitor,
            {.meaning = "Writes metrics to CSV files.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.section("flops_profiler", c.flops_profiler,
            {.meaning = "Per-module profile of parameters, MACs, flops and latency.",
             .off = "enabled is false"});
  v.section("comms_logger", c.comms_logger,
            {.meaning = "Records size, latency and bandwidth of every collective.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "enabled is false"});
  v.section("timers", c.timers, {.meaning = "Timers of the engine."});
  v.section(
      "autotuning", c.autotuning,
      {.meaning = "Automatic search over ZeRO stage, micro batch size and further ZeRO settings.",
       .effect = Effect::kNotYet,
       .off = "enabled is false"});
  v.section("compile", c.compile,
            {.meaning = "Graph compilation.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .effect = Effect::kNotYet});
  v.section("hybrid_engine", c.hybrid_engine,
            {.meaning = "Switching between training and generation.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
  v.section("eigenvalue", c.eigenvalue,
            {.meaning = "Estimate of the largest curvature eigenvalue per block by power "
                        "iteration, to steer quantisation. Monitors get the magnitude of each "
                        "block's by the largest of all. An iteration costs two forward and "
                        "backward passes of a micro-batch, and there are at most layer_num * "
                        "max_iter of them every gas_boundary_resolution steps.",
             .off = "enabled is false"});
  v.section("nebula", c.nebula,
            {.meaning = "Checkpoints through the Nebula service.",
             .effect = Effect::kNotYet,
             .off = "enabled is false"});
  v.field(
      "datastates_ckpt", c.datastates_ckpt,
      {.meaning = "Asynchronous checkpoint engine of a third party.", .effect = Effect::kNotYet});
  v.field(
      "quantize_training", c.quantize_training,
      {.meaning = "Older container of the eigenvalue section, which is taken out of it; what else "
                  "stands in it asks for quantisation while training.",
       .effect = Effect::kNotYet,
       .object_only = true});
  v.field("weight_quantization", c.weight_quantization,
          {.meaning = "Weight quantisation at load time for ZeRO inference (top-level section, "
                      "unrelated to compression_training).",
           .effect = Effect::kNotYet,
           .object_only = true});
}

}  // namespace

void fields(Visitor& v, Config& c) {
  v.section("model", c.model,
            {.meaning = "The model: a family and its Hugging Face field names, or a folder."});
  v.section("data", c.data, {.meaning = "What to train on; paths are relative to this file."});
  v.section("train", c.train, {.meaning = "How long to train, and when to evaluate and save."});
  v.section("lora", c.lora,
            {.meaning = "Low-rank adapters (LoRA, arXiv 2106.09685) beside linear layers, which "
                        "train while the model's own weights are frozen; final/ is then a folder "
                        "as peft has it."});
  v.section("preference", c.preference,
            {.meaning = "Training on pairs of answers, a better one and a worse one (DPO, arXiv "
                        "2305.18290, and its kin), where data.format is preference; without the "
                        "section by DPO's loss."});
  v.section("communication", c.communication, {.meaning = "How ranks talk to each other."});
  v.section("memory", c.memory, {.meaning = "How much memory each rank may take."});
  batch_fields(v, c);
  run_fields(v, c);
  communication_fields(v, c);
  engine_sections(v, c);
  other_sections(v, c);
  service_sections(v, c);
}

}  // namespace ds
