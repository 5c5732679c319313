// "rope_scaling" of a config.json: how a model whose words are Llama's makes its rotary positions
// reach further than it was first trained to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/families/spec/rotary.h"

namespace ds {

class Visitor;

// What transformers has for a key that is silent is the default; keys of other types say nothing.
struct RopeScaling {
  std::string rope_type = "default";
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double beta_fast = 32;
  double beta_slow = 1;
  std::optional<double> attention_factor = {};
  std::optional<double> mscale = {}, mscale_all_dim = {};
  std::optional<bool> truncate = {};
  std::optional<double> length_factor = {};  // "factor" of longrope
  std::vector<double> short_factor = {}, long_factor = {};
  std::optional<int64_t> original_max_position_embeddings = {};
  bool operator==(const RopeScaling&) const = default;
};
void fields(Visitor& v, RopeScaling& c);

// Sizes that no check has passed yet may be out of their range. `positions`: the model's.
RotaryScaling rotary_scaling(const std::optional<RopeScaling>& c, int64_t positions);
// How many positions a sequence may have: the model's, or, where longer ones would turn by other
// frequencies than shorter ones, those of before.
int64_t scaled_positions(const std::optional<RopeScaling>& c, int64_t positions);

}  // namespace ds
