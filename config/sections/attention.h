// Activation checkpointing and sparse attention.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class SparsityMode : int { kDense, kFixed, kVariable, kBigBird, kBsLongformer };
std::span<const EnumName> names_of(SparsityMode);
enum class AttentionDirection : int { kUnidirectional, kBidirectional };
std::span<const EnumName> names_of(AttentionDirection);

enum class RecomputeGranularity : int { kBlock, kAttention, kMlp };
std::span<const EnumName> names_of(RecomputeGranularity);

struct ActivationCheckpointingConfig {
  bool enabled = false;  // true where the section is there and does not say
  RecomputeGranularity granularity = RecomputeGranularity::kBlock;
  int64_t layers_per_checkpoint = 1;
  std::vector<std::string> modules;
  int64_t mlp_tiles = 1;
  bool partition_activations = false;
  bool cpu_checkpointing = false;
  bool contiguous_memory_optimization = false;
  std::optional<int64_t> number_checkpoints;
  bool synchronize_checkpoint_boundary = false;
  bool profile = false;
};
void fields(Visitor& v, ActivationCheckpointingConfig& c);

// Block layouts of the five modes; sizes count blocks of `block` x `block` tokens.
struct SparseAttentionConfig {
  SparsityMode mode = SparsityMode::kFixed;
  int64_t block = 16;
  bool different_layout_per_head = false;
  int64_t num_local_blocks = 4;
  int64_t num_global_blocks = 1;
  AttentionDirection attention = AttentionDirection::kBidirectional;
  bool horizontal_global_attention = false;
  int64_t num_different_global_patterns = 1;
  int64_t num_random_blocks = 0;
  std::vector<int64_t> local_window_blocks = {4};
  std::vector<int64_t> global_block_indices = {0};
  std::optional<std::vector<int64_t>> global_block_end_indices;
  int64_t num_sliding_window_blocks = 3;
};
void fields(Visitor& v, SparseAttentionConfig& c);

}  // namespace ds
