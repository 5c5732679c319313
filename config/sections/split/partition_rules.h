// AutoTP's rules (tensor_parallel.partition_config; pure): for each weight of a layer the first
// rule whose pattern is found at the front of its name says how ranks share it. Families split
// their layers themselves, so the rules of a file are compared with that: they may say the same,
// or leave it to the family; a layer that they would split otherwise, or keep whole, is refused.
#pragma once

#include <string>
#include <vector>

#include "config/families/list.h"
#include "config/sections/parallel.h"

namespace ds {

struct SplitWeight {
  std::string name;     // as in Hugging Face's files: "model.layers.0.mlp.up_proj.weight"
  PartitionType split;  // kColumn: of what it gives, ranks have a part; kRow: of what it takes
  // Tables of the vocabulary, which the rules of other systems say nothing of.
  bool needs_rule = true;
};
// Those that ranks of a layer share.
std::vector<SplitWeight> split_weights(const ModelConfig& model);

struct PartitionFindings {
  std::string conflict;   // why the rules cannot be followed; empty: they can
  std::vector<int> idle;  // rules that are for no weight of the model

  std::vector<std::string> notes() const;
};
PartitionFindings follow_rules(const ModelConfig& model, const PartitionConfig& rules);

}  // namespace ds
