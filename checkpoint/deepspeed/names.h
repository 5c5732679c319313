// File names of DeepSpeed's checkpoints (pure): how they are spelt, sorted, and what a folder's
// names tell about the layout that wrote it. Needed to read such checkpoints; ours have names of
// their own (checkpoint/format.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/deepspeed/rank_grid.h"

namespace ds::deepspeed {

// All names are relative to the checkpoint folder. A tag that is not given, or is empty, leaves
// the folder part out.
using Tag = std::optional<std::string>;

enum class HalfType { kF16, kBF16 };

std::string optimizer_states_name(const Tag& tag, int data_rank, int model_rank, HalfType half);
std::string model_states_name(const Tag& tag, int model_rank);
// Stage 3: every data rank has its own.
std::string partitioned_model_states_name(const Tag& tag, int data_rank, int model_rank);
std::string model_states_name(std::string_view model_rank_text);
// A negative layer is the older form without a layer.
std::string expert_states_name(const Tag& tag, int64_t layer, int64_t expert, int model_rank);
// Mixture of experts without ZeRO.
std::string expert_optimizer_states_name(const Tag& tag, int expert_rank, int model_rank);
// One pipeline layer; all axes but pipe and data are spelt out.
std::string layer_states_name(const RankGrid& grid, int rank, int layer);
// As the reader of pipeline checkpoints expects it, `layer` being e.g. "layer_09".
std::string layer_states_name(std::string_view layer, int tensor_rank);
// All axes but data are spelt out.
std::string module_prefix(const Tag& tag, const RankGrid& grid, int rank);

// Sorts so that runs of digits compare as numbers; names that compare equal keep their order.
void natural_sort(std::vector<std::string>& names);

// The ZeRO files among the names in one folder, by data rank, then model rank: those of the first
// prefix present of zero_pp_rank_, fp16_zero_pp_rank_, bf16_zero_pp_rank_. Throws DataError for
// such a name without both ranks.
std::vector<std::string> zero_files(std::span<const std::string> names);

struct Layout {
  int64_t pipe = 1;
  int64_t tensor = 1;
  int64_t data = 1;
  friend bool operator==(const Layout&, const Layout&) = default;
};

// The sizes that wrote a folder, from its names alone: the files of layer 01 count tensor ranks,
// the mp_rank files pipe * tensor, the ZeRO files all ranks. Throws DataError when there are no
// model files.
Layout layout_from_names(std::span<const std::string> names);

}  // namespace ds::deepspeed
