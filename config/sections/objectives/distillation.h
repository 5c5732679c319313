// Distillation: a model learns from what another one, its teacher, says of the same tokens
// (kernels/softmax/distillation.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/families/spec/matched_blocks.h"
#include "config/reader/fields.h"

namespace ds {

struct DistillationConfig {
  std::string teacher;  // a folder of Hugging Face
  double alpha = 1;     // of the loss of targets
  double beta = 1;      // of the divergence from the teacher
  double temperature = 1;
  Value layers;  // an object: the number of a block, from 1, -> the number of one of the teacher
  double layers_weight = 1;
  std::optional<int64_t> until_step;
};
void fields(Visitor& v, DistillationConfig& c);

// What `layers` says, in the order of the model's own blocks. ConfigError, without the key, for
// what is no number of a block.
std::vector<MatchedBlocks> matched_blocks(const DistillationConfig& c);

}  // namespace ds
