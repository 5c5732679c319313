#include "config/sections/attention.h"

namespace ds {

std::span<const EnumName> names_of(SparsityMode) {
  static constexpr EnumName kNames[] = {
      {"dense", static_cast<int>(SparsityMode::kDense)},
      {"fixed", static_cast<int>(SparsityMode::kFixed)},
      {"variable", static_cast<int>(SparsityMode::kVariable)},
      {"bigbird", static_cast<int>(SparsityMode::kBigBird)},
      {"bslongformer", static_cast<int>(SparsityMode::kBsLongformer)},
  };
  return kNames;
}

std::span<const EnumName> names_of(AttentionDirection) {
  static constexpr EnumName kNames[] = {
      {"unidirectional", static_cast<int>(AttentionDirection::kUnidirectional)},
      {"bidirectional", static_cast<int>(AttentionDirection::kBidirectional)},
  };
  return kNames;
}

std::span<const EnumName> names_of(RecomputeGranularity) {
  static constexpr EnumName kNames[] = {
      {"block", static_cast<int>(RecomputeGranularity::kBlock)},
      {"attention", static_cast<int>(RecomputeGranularity::kAttention)},
      {"mlp", static_cast<int>(RecomputeGranularity::kMlp)},
  };
  return kNames;
}

void fields(Visitor& v, ActivationCheckpointingConfig& c) {
  v.field("enabled", c.enabled,
          {.meaning = "Recompute activations. True where the section is there and does not say.",
           .effect = Effect::kUsed});
  v.field("granularity", c.granularity,
          {.meaning = "What is computed again: whole blocks, or their attention or MLP alone.",
           .effect = Effect::kUsed});
  v.field(
      "layers_per_checkpoint", c.layers_per_checkpoint,
      {.meaning =
           "Consecutive blocks that keep one activation together. Of several such rows the last "
           "keeps all of its activations, as its gradients come next, unless there are stages, "
           "or activations wait on the host.",
       .effect = Effect::kUsed,
       .min = 1});
  v.field("modules", c.modules,
          {.meaning = "Regular expressions; blocks in whose names one is found. None: all blocks.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("mlp_tiles", c.mlp_tiles,
          {.meaning = "Runs of rows that go through an MLP one after the other, and again in the "
                      "backward pass: what is between its products needs memory for one. With "
                      "enabled false, too. 1: all rows at once.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field("partition_activations", c.partition_activations,
          {.meaning = "Of what checkpoints keep, each of the ranks that share layers has a part, "
                      "which all of them gather before a block is run again.",
           .effect = Effect::kUsed});
  v.field("cpu_checkpointing", c.cpu_checkpointing,
          {.meaning = "Keep what is saved for the backward pass in host memory, as "
                      "train.offload_activations does.",
           .effect = Effect::kUsed});
  v.field("contiguous_memory_optimization", c.contiguous_memory_optimization,
          {.meaning = "Copy partitioned activations into one contiguous buffer.",
           .effect = Effect::kAlwaysSo,
           .here = "all activations of a step have planned places in one block"});
  v.field("number_checkpoints", c.number_checkpoints,
          {.meaning = "Number of checkpoints for which the contiguous buffer is sized.",
           .effect = Effect::kAlwaysSo,
           .here = "the plan counts the checkpoints itself"});
  v.field("synchronize_checkpoint_boundary", c.synchronize_checkpoint_boundary,
          {.meaning =
               "Synchronise the device at each checkpoint boundary. Steps are then no CUDA graphs.",
           .effect = Effect::kUsed});
  v.field("profile", c.profile,
          {.meaning = "Log forward and backward time of each checkpointed function.",
           .effect = Effect::kUsed});
}

void fields(Visitor& v, SparseAttentionConfig& c) {
  v.field("mode", c.mode, {.meaning = "Layout family.", .deepspeed_refuses = true});
  v.field("block", c.block, {.meaning = "Side length of a block.", .above = 0});
  v.when(c.mode == SparsityMode::kFixed || c.mode == SparsityMode::kVariable ||
             c.mode == SparsityMode::kBigBird || c.mode == SparsityMode::kBsLongformer,
         "mode is fixed or variable or bigbird or bslongformer", [&] {
           v.field("different_layout_per_head", c.different_layout_per_head,
                   {.meaning = "Give each head its own layout where possible."});
         });
  v.when(c.mode == SparsityMode::kFixed, "mode is fixed", [&] {
    v.field("num_local_blocks", c.num_local_blocks,
            {.meaning = "Blocks per local window.", .above = 0});
  });
  v.when(c.mode == SparsityMode::kFixed || c.mode == SparsityMode::kBigBird,
         "mode is fixed or bigbird", [&] {
           v.field("num_global_blocks", c.num_global_blocks,
                   {.meaning = "Representative blocks per local window (fixed), or leading global "
                               "blocks (bigbird).",
                    .min = 0});
         });
  v.when(c.mode == SparsityMode::kFixed || c.mode == SparsityMode::kVariable,
         "mode is fixed or variable", [&] {
           v.field("attention", c.attention,
                   {.meaning = "unidirectional masks the upper triangle, bidirectional does not."});
           v.field("horizontal_global_attention", c.horizontal_global_attention,
                   {.meaning = "Global blocks attend to all blocks too."});
         });
  v.when(c.mode == SparsityMode::kFixed, "mode is fixed", [&] {
    v.field(
        "num_different_global_patterns", c.num_different_global_patterns,
        {.meaning = "Number of different choices of the representative block, rotated over heads.",
         .min = 1});
  });
  v.when(c.mode == SparsityMode::kVariable || c.mode == SparsityMode::kBigBird,
         "mode is variable or bigbird", [&] {
           v.field("num_random_blocks", c.num_random_blocks,
                   {.meaning = "Random blocks per block row.", .min = 0});
         });
  v.when(c.mode == SparsityMode::kVariable, "mode is variable", [&] {
    v.field(
        "local_window_blocks", c.local_window_blocks,
        {.meaning =
             "Blocks of each local window in turn; the last value serves all remaining windows.",
         .above = 0});
  });
  v.when(c.mode == SparsityMode::kVariable || c.mode == SparsityMode::kBsLongformer,
         "mode is variable or bslongformer", [&] {
           v.field("global_block_indices", c.global_block_indices,
                   {.meaning = "Blocks with global attention, or the starts of global ranges.",
                    .min = 0});
           v.field("global_block_end_indices", c.global_block_end_indices,
                   {.meaning = "Exclusive ends of the global ranges.", .min = 0});
         });
  v.when(c.mode == SparsityMode::kBigBird || c.mode == SparsityMode::kBsLongformer,
         "mode is bigbird or bslongformer", [&] {
           v.field("num_sliding_window_blocks", c.num_sliding_window_blocks,
                   {.meaning = "Width of the sliding window in blocks.", .min = 1});
         });
}

}  // namespace ds
