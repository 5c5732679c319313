#include "config/sections/zero.h"

namespace ds {

std::span<const EnumName> names_of(OffloadDevice) {
  static constexpr EnumName kNames[] = {
      {"none", static_cast<int>(OffloadDevice::kNone)},
      {"cpu", static_cast<int>(OffloadDevice::kCpu)},
      {"nvme", static_cast<int>(OffloadDevice::kNvme)},
  };
  return kNames;
}

std::span<const EnumName> names_of(ZenflowStrategy) {
  static constexpr EnumName kNames[] = {
      {"auto", static_cast<int>(ZenflowStrategy::kAuto)},
      {"step", static_cast<int>(ZenflowStrategy::kStep)},
      {"epoch", static_cast<int>(ZenflowStrategy::kEpoch)},
  };
  return kNames;
}

void fields(Visitor& v, OffloadParamConfig& c) {
  v.field("device", c.device, {.meaning = "Where parameters are kept.", .effect = Effect::kUsed});
  v.field("nvme_path", c.nvme_path,
          {.meaning = "Directory on the NVMe device.", .effect = Effect::kUsed});
  v.field("pin_memory", c.pin_memory,
          {.meaning = "Use page-locked host memory; beside a GPU it always is.",
           .effect = Effect::kUsed});
  v.field("buffer_count", c.buffer_count,
          {.meaning = "Buffers in the NVMe staging pool.", .effect = Effect::kUsed, .min = 0});
  v.field("buffer_size", c.buffer_size,
          {.meaning = "Elements per staging buffer, at most: no buffer is larger than the largest "
                      "slice of a rank.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("max_in_cpu", c.max_in_cpu,
          {.meaning = "Parameter elements that each rank keeps in host memory when the device is "
                      "nvme.",
           .effect = Effect::kUsed,
           .min = 0});
}

void fields(Visitor& v, OffloadOptimizerConfig& c) {
  v.field(
      "device", c.device,
      {.meaning = "Where optimizer state is kept; the update itself runs on the CPU either way.",
       .effect = Effect::kUsed});
  v.field("nvme_path", c.nvme_path,
          {.meaning =
               "Directory on the NVMe device, which exists; swap files lie in a folder of "
               "the job there, and are gone when it ends; after a kill, when the next one begins.",
           .effect = Effect::kUsed});
  v.field("pin_memory", c.pin_memory,
          {.meaning = "Use page-locked host memory: for the state beside a GPU, and for the "
                      "buffers of swapping, which are locked where that is possible in any case; "
                      "with true it is an error where it is not (RLIMIT_MEMLOCK).",
           .effect = Effect::kUsed});
  v.field(
      "ratio", c.ratio,
      {.meaning =
           "Share of parameters whose update runs on the CPU; the rest is updated on the device.",
       .effect = Effect::kUsed,
       .min = 0,
       .max = 1});
  v.field("buffer_count", c.buffer_count,
          {.meaning = "Buffers of the staging pool, each for the whole state of one sub-group and "
                      "its gradient: one to work in, one to read ahead, one that is written.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("fast_init", c.fast_init,
          {.meaning = "When state on NVMe is filled for the first time, write a sub-group while "
                      "the next one is made, whatever pipeline_write says.",
           .effect = Effect::kUsed});
  v.field("pipeline_read", c.pipeline_read,
          {.meaning = "Read the next tile while the present one is computed.",
           .effect = Effect::kUsed});
  v.field("pipeline_write", c.pipeline_write,
          {.meaning = "Write the previous tile while the present one is computed, and gradients "
                      "while the backward pass goes on.",
           .effect = Effect::kUsed});
  v.retired("pipeline", "pipeline_read and pipeline_write", "Both overlaps of swapping.");
  v.field("super_offload", c.super_offload,
          {.meaning = "Begin the update on the CPU during the backward pass, as soon as gradients "
                      "are final, and undo it where their norm or a value that is not finite asks "
                      "for another one. For that the host keeps state twice; of state on NVMe the "
                      "swap file has it twice, and the host keeps the new weights.",
           .effect = Effect::kUsed});
  v.field("cpuadam_cores_perc", c.cpuadam_cores_perc,
          {.meaning = "Share of a rank's threads that this update has, at least one.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = 1});
}

void fields(Visitor& v, LocoConfig& c) {
  v.field("err_beta", c.err_beta,
          {.meaning = "Decay of the error average: how much of the one before stays.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = 1});
  v.field(
      "reset_T", c.reset_steps,
      {.meaning = "Steps between resets of the error buffers.", .effect = Effect::kUsed, .min = 1});
}

void fields(Visitor& v, LeafModuleConfig& c) {
  v.field("classes", c.classes,
          {.meaning = "Fully qualified class names.",
           .effect = Effect::kAlwaysSo,
           .here = "layers are fetched in planned order, and none is a leaf",
           .one_or_list = true});
  v.field("names", c.names,
          {.meaning = "Module names.",
           .effect = Effect::kAlwaysSo,
           .here = "layers are fetched in planned order, and none is a leaf",
           .one_or_list = true});
  v.field("name_suffixes", c.name_suffixes,
          {.meaning = "Module name suffixes.",
           .effect = Effect::kAlwaysSo,
           .here = "layers are fetched in planned order, and none is a leaf",
           .one_or_list = true});
}

void fields(Visitor& v, ZenflowConfig& c) {
  v.field("topk_ratio", c.topk_ratio,
          {.meaning = "Share of a matrix's columns, one at least, that are important: those with "
                      "the largest gradients. They are updated on the device at every step, and so "
                      "is what is no matrix.",
           .effect = Effect::kUsed,
           .above = 0,
           .below = 1});
  v.field("select_strategy", c.select_strategy,
          {.meaning = "Whether select_interval counts steps or epochs; auto is every epoch.",
           .effect = Effect::kUsed});
  v.field("select_interval", c.select_interval,
          {.meaning = "Steps or epochs after which the important columns are chosen anew. They are "
                      "chosen first after full_warm_up_rounds.",
           .effect = Effect::kUsed,
           .refuse_null = true,
           .refuse_text = true,
           .unset_text = "auto"});
  v.field("update_interval", c.update_interval,
          {.meaning = "Steps whose gradients the host adds up of all other columns, before it "
                      "updates them by the mean; auto: until they have grown as large as those of "
                      "important columns. Columns are chosen anew between two intervals.",
           .effect = Effect::kUsed,
           .min = 1,
           .refuse_null = true,
           .refuse_text = true,
           .unset_text = "auto"});
  v.field("overlap_step", c.overlap_step,
          {.meaning = "Make the host's update on threads of its own while training goes on; what "
                      "it comes to is seen one interval later.",
           .effect = Effect::kUsed});
  v.field(
      "offload", c.offload,
      {.meaning = "Keep the moments of important columns on the host, too, from where they come "
                  "for each update.",
       .effect = Effect::kUsed});
  v.field(
      "auto_ratio", c.auto_ratio,
      {.meaning = "With update_interval auto: share of matrices in which gradients have to have "
                  "grown as large.",
       .effect = Effect::kUsed,
       .min = 0,
       .max = 1});
  v.field("full_warm_up_rounds", c.full_warm_up_rounds,
          {.meaning = "First steps that update everything, as without ZenFlow.",
           .effect = Effect::kUsed,
           .min = 0,
           .own_range = true});
  v.field("pt_reserved_cores_perc", c.pt_reserved_cores_perc,
          {.meaning = "Share of a rank's threads that overlap_step leaves to training; the host's "
                      "update has the others, or all where there are none.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = 1});
}

// Beyond 70 lines in one piece, hence four, in the order of the documentation.
namespace {

void gradient_fields(Visitor& v, ZeroConfig& c) {
  v.field(
      "stage", c.stage,
      {.meaning = "0 off, 1 optimizer states, 2 plus gradients, 3 plus parameters are partitioned.",
       .effect = Effect::kUsed,
       .min = 0,
       .max = 3});
  v.field("allgather_partitions", c.allgather_partitions,
          {.meaning = "After a step, collect updated parameters with allgather (true) or with a "
                      "series of broadcasts (false).",
           .effect = Effect::kAlwaysSo,
           .here = "updated weights are always gathered, never broadcast one by one"});
  v.field("allgather_bucket_size", c.allgather_bucket_size,
          {.meaning = "Elements per allgather call.", .effect = Effect::kUsed, .min = 0});
  v.field(
      "overlap_comm", c.overlap_comm,
      {.meaning = "Run gradient reduction and gathers concurrently with computation; on a CPU by a "
                  "thread of its own, where ranks have other samples and nothing else apart "
                  "(no pipeline, sequence, tensor or expert parallelism) and nothing is offloaded "
                  "or sent by rows (sparse_gradients), else a bucket is reduced when it is full, "
                  "and the backward pass waits for it.",
       .effect = Effect::kUsed});
  v.field("reduce_scatter", c.reduce_scatter,
          {.meaning = "Average gradients with reduce or reduce-scatter rather than allreduce.",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are always reduced by reduce-scatter"});
  v.field(
      "reduce_bucket_size", c.reduce_bucket_size,
      {.meaning = "Elements per gradient reduction call.", .effect = Effect::kUsed, .above = 0});
  v.field("contiguous_gradients", c.contiguous_gradients,
          {.meaning =
               "Copy gradients into one contiguous buffer as they appear, to avoid fragmentation.",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are always written into contiguous buckets"});
  v.field("load_from_fp32_weights", c.load_from_fp32_weights,
          {.meaning = "When loading a checkpoint, build fp32 master weights from its fp32 copies "
                      "(true) or from the 16-bit weights (false).",
           .effect = Effect::kAlwaysSo,
           .here = "checkpoints are always loaded with their fp32 weights"});
  v.field(
      "grad_hooks", c.grad_hooks,
      {.meaning = "Stage 1: reduce gradients from backward hooks (true) or once at the end of "
                  "the backward pass (false).",
       .effect = Effect::kAlwaysSo,
       .here =
           "gradients are reduced during the backward pass, and with stages of a pipeline at the "
           "end of the step"});
  v.field("round_robin_gradients", c.round_robin_gradients,
          {.meaning = "Stage 1/2 with CPU offload: spread the gradient copies to host over the "
                      "ranks in round-robin order.",
           .effect = Effect::kAlwaysSo,
           .here = "each rank copies its own slice of the gradients, and no other"});
}

void parameter_fields(Visitor& v, ZeroConfig& c) {
  v.section("offload_param", c.offload_param,
            {.meaning = "Offload of parameters to CPU or NVMe.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "device is none"});
  v.section("offload_optimizer", c.offload_optimizer,
            {.meaning = "Offload of optimizer state to CPU or NVMe and of the update to CPU.",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues,
             .off = "device is none"});
  v.field("stage3_max_live_parameters", c.stage3_max_live_parameters,
          {.meaning = "Upper bound on gathered parameter elements resident per device.",
           .effect = Effect::kUsed,
           .min = 0,
           .synonyms = {"max_live_parameters"}});
  v.field(
      "stage3_max_reuse_distance", c.stage3_max_reuse_distance,
      {.meaning =
           "Keep a gathered parameter if it is needed again within this many parameter elements.",
       .effect = Effect::kUsed,
       .min = 0,
       .synonyms = {"max_reuse_distance"}});
  v.field("stage3_prefetch_bucket_size", c.stage3_prefetch_bucket_size,
          {.meaning = "Parameter elements fetched ahead of use.",
           .effect = Effect::kUsed,
           .min = 0,
           .synonyms = {"prefetch_bucket_size"}});
  v.field("stage3_param_persistence_threshold", c.stage3_param_persistence_threshold,
          {.meaning = "Parameters with fewer elements than this stay unpartitioned.",
           .effect = Effect::kUsed,
           .min = 0,
           .synonyms = {"param_persistence_threshold"}});
  v.field("stage3_gather_16bit_weights_on_model_save", c.stage3_gather_16bit_weights_on_model_save,
          {.meaning = "Consolidate the partitioned 16-bit weights when the model is saved: final/ "
                      "then has them in the "
                      "type of fp16 or bf16 and not in fp32.",
           .effect = Effect::kUsed,
           .synonyms = {"stage3_gather_fp16_weights_on_model_save",
                        "gather_16bit_weights_on_model_save"}});
  v.field("stage3_module_granularity_threshold", c.stage3_module_granularity_threshold,
          {.meaning = "Modules whose ratio parameters/(1+descendants) is below this are fetched as "
                      "one unit; 0 disables.",
           .effect = Effect::kAlwaysSo,
           .here = "parameters are fetched by bucket, whatever their module",
           .synonyms = {"module_granularity_threshold"}});
  v.field("stage3_model_persistence_threshold", c.stage3_model_persistence_threshold,
          {.meaning =
               "Upper bound on the total number of unpartitioned (persistent) parameter elements.",
           .effect = Effect::kAlwaysSo,
           .here = "there is no bound on parameters that stay whole",
           .min = 0,
           .synonyms = {"model_persistence_threshold"}});
  v.field("stage3_use_all_reduce_for_fetch_params", c.stage3_use_all_reduce_for_fetch_params,
          {.meaning = "Fetch parameters with allreduce rather than allgather.",
           .effect = Effect::kAlwaysSo,
           .here = "parameters are always fetched by allgather",
           .synonyms = {"use_all_reduce_for_fetch_params"}});
  v.field("stage3_allgather_sequential", c.stage3_allgather_sequential,
          {.meaning = "Gather parameters one by one without the bucket buffer.",
           .effect = Effect::kAlwaysSo,
           .here = "parameters are always gathered by bucket",
           .synonyms = {"allgather_sequential"}});
}

void shard_fields(Visitor& v, ZeroConfig& c) {
  v.field("sub_group_size", c.sub_group_size,
          {.meaning = "Parameter elements per tile of the stage-3 optimizer step, where its state "
                      "is offloaded: what is updated, and swapped, in one piece. Tiles are "
                      "multiples of 32 elements; of Lamb, of Muon's matrices, and with zenflow, a "
                      "rank's slice of a bucket is one. 0, the smallest tile: what a rank has of "
                      "its largest parameter.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("elastic_checkpoint", c.elastic_checkpoint,
          {.meaning = "Write stage 1/2 optimizer state so that it can be repartitioned for another "
                      "data-parallel size.",
           .effect = Effect::kAlwaysSo,
           .here = "checkpoints can always be loaded by another number of ranks",
           .only = {"true"}});
  v.field("ignore_unused_parameters", c.ignore_unused_parameters,
          {.meaning = "true: parameters that took no part in the loss are tolerated; false: they "
                      "end training with an error.",
           .effect = Effect::kAlwaysSo,
           .here = "every parameter takes part in the loss"});
  v.field("zero_hpz_partition_size", c.zero_hpz_partition_size,
          {.meaning = "Ranks per secondary parameter partition (hpZ of ZeRO++), best as many as a "
                      "host has; 0 and 1 mean off. The backward pass then gathers weights over "
                      "these alone.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("zero_quantized_weights", c.zero_quantized_weights,
          {.meaning = "Quantise weights for the parameter allgather (qwZ of ZeRO++): 8-bit codes, "
                      "and a scale for at most 2048 weights.",
           .effect = Effect::kUsed});
  v.field("zero_quantized_gradients", c.zero_quantized_gradients,
          {.meaning = "Quantise gradients in a hierarchical all-to-all reduction (qgZ of ZeRO++): "
                      "4-bit codes, summed over the ranks of zero_hpz_partition_size, or else of a "
                      "host, and then over the rest.",
           .effect = Effect::kUsed});
  v.field("log_trace_cache_warnings", c.log_trace_cache_warnings,
          {.meaning = "Log events such as invalidation of the stage-3 parameter fetch trace.",
           .effect = Effect::kAlwaysSo,
           .here = "the order of fetches is planned before the run and never invalid"});
  v.retired("cpu_offload", "zero_optimization.offload_optimizer",
            "Older switch for optimizer offload to CPU.");
  v.retired("cpu_offload_param", "zero_optimization.offload_param",
            "Older switch for parameter offload to CPU.");
  v.retired("cpu_offload_params", "zero_optimization.offload_param",
            "Still older switch for parameter offload to CPU.");
  v.retired("cpu_offload_use_pin_memory", "zero_optimization.offload_optimizer.pin_memory",
            "Older switch for pinned host memory; only warns.");
}

void extension_fields(Visitor& v, ZeroConfig& c) {
  v.field("legacy_stage1", c.legacy_stage1,
          {.meaning = "Selects a removed implementation of stage 1.",
           .effect = Effect::kAlwaysSo,
           .here = "there is one stage 1"});
  v.field("use_multi_rank_bucket_allreduce", c.use_multi_rank_bucket_allreduce,
          {.meaning = "Merge reduce buckets destined for different ranks into one allreduce.",
           .effect = Effect::kAlwaysSo,
           .here = "gradients are always reduced by reduce-scatter"});
  v.field("zero_quantized_nontrainable_weights", c.zero_quantized_nontrainable_weights,
          {.meaning = "Store frozen weights in quantised form (for LoRA).",
           .effect = Effect::kAlwaysSo,
           .here = "frozen weights (train.freeze) keep their own number type"});
  v.section("zeropp_loco_param", c.zeropp_loco_param,
            {.meaning = "Error feedback (LoCo) for quantised gradients: what their codes lose is "
                        "kept on each rank, in a byte and a fraction per weight of the whole "
                        "model, and added to the next ones."});
  v.field("mics_shard_size", c.mics_shard_size,
          {.meaning = "Ranks per MiCS shard, which share out what stage 3 shares out over all "
                      "ranks; -1 and 0 mean off.",
           .effect = Effect::kUsed,
           .min = -1,
           .own_range = true});
  v.field("mics_hierarchical_params_gather", c.mics_hierarchical_params_gather,
          {.meaning = "Two-level gather inside a MiCS shard.",
           .effect = Effect::kAlwaysSo,
           .here = "a shard is gathered in one step"});
  v.field("memory_efficient_linear", c.memory_efficient_linear,
          {.meaning = "Use the stage-3 linear layer that does not keep gathered weights alive.",
           .effect = Effect::kAlwaysSo,
           .here = "no layer keeps gathered weights"});
  v.field("pipeline_loading_checkpoint", c.pipeline_loading_checkpoint,
          {.meaning = "Load stage-3 checkpoints one local rank after another to bound host memory.",
           .effect = Effect::kAlwaysSo,
           .here = "every rank reads its own part of a checkpoint only"});
  v.field("override_module_apply", c.override_module_apply,
          {.meaning = "Gather parameters inside module.apply.",
           .effect = Effect::kAlwaysSo,
           .here = "there is no module.apply"});
  v.field("enable_sanity_checks", c.enable_sanity_checks,
          {.meaning = "Internal consistency checks.",
           .effect = Effect::kAlwaysSo,
           .here = "internal checks are always on",
           .only = {"true"}});
  v.field("save_muon_momentum_buffer_in_memory", c.save_muon_momentum_buffer_in_memory,
          {.meaning = "Keep the Muon momentum out of NVMe swapping.",
           .effect = Effect::kAlwaysSo,
           .here = "the momentum lies where offload_optimizer puts the state of every optimizer"});
  v.section("leaf_module", c.leaf_module,
            {.meaning = "Module classes or names whose hooks are not installed below them (treated "
                        "as one unit).",
             .deepspeed_checks = DeepSpeedChecks::kKeysAndValues});
  v.section(
      "zenflow", c.zenflow,
      {.meaning = "ZenFlow: update the columns with the largest gradients on the device at once, "
                  "and the rest now and then on the CPU. With offload_optimizer on cpu, Adam "
                  "or AdamW.",
       .deepspeed_checks = DeepSpeedChecks::kKeysAndValues});
}

}  // namespace

void fields(Visitor& v, ZeroConfig& c) {
  gradient_fields(v, c);
  parameter_fields(v, c);
  shard_fields(v, c);
  extension_fields(v, c);
}

void fields(Visitor& v, AioConfig& c) {
  v.field("block_size", c.block_size,
          {.meaning = "Bytes per I/O request.", .effect = Effect::kUsed, .above = 0});
  v.field("queue_depth", c.queue_depth,
          {.meaning = "Requests in flight per thread.", .effect = Effect::kUsed, .above = 0});
  v.field("thread_count", c.thread_count,
          {.meaning = "Threads that share one read or write.",
           .effect = Effect::kUsed,
           .above = 0,
           .synonyms = {"intra_op_parallelism"}});
  v.field(
      "single_submit", c.single_submit,
      {.meaning = "Submit requests one at a time instead of as a batch.", .effect = Effect::kUsed});
  v.field("overlap_events", c.overlap_events,
          {.meaning = "Submit new requests without waiting for earlier ones.",
           .effect = Effect::kUsed});
  v.field("use_gds", c.use_gds, {.meaning = "Use GPUDirect Storage.", .effect = Effect::kUsed});
}

}  // namespace ds
