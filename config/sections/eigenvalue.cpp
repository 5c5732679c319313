#include "config/sections/eigenvalue.h"

#include <fmt/format.h>

#include "config/reader/fields.h"

namespace ds {

void fields(Visitor& v, EigenvalueConfig& c) {
  v.field("enabled", c.enabled, {.meaning = "Switch.", .effect = Effect::kUsed});
  v.field("verbose", c.verbose,
          {.meaning = "Log every iteration result.", .effect = Effect::kUsed});
  v.field("max_iter", c.max_iter,
          {.meaning = "Most power iterations per block.", .effect = Effect::kUsed, .min = 1});
  v.field(
      "tol", c.tol,
      {.meaning = "Relative change at which iteration stops.", .effect = Effect::kUsed, .min = 0});
  v.field("stability", c.stability,
          {.meaning = "Added to the vector norm.", .effect = Effect::kUsed, .min = 0});
  v.field("gas_boundary_resolution", c.gas_boundary_resolution,
          {.meaning = "Compute every so many accumulation boundaries.",
           .effect = Effect::kUsed,
           .min = 1});
  v.field("layer_name", c.layer_name,
          {.meaning = "Attribute path of the list of blocks.", .effect = Effect::kUsed});
  v.field(
      "layer_num", c.layer_num,
      {.meaning = "Number of blocks; must be >0 when enabled.", .effect = Effect::kUsed, .min = 0});
}

std::vector<SizeConflict> eigenvalue_conflicts(const EigenvalueConfig& config,
                                               const ModelConfig& model) {
  std::vector<SizeConflict> conflicts;
  if (const std::string list = block_list(model); config.layer_name != list) {
    conflicts.push_back({"layer_name", fmt::format("\"{}\", but the blocks of this model are "
                                                   "\"{}\"; set that",
                                                   config.layer_name, list)});
  }
  if (const int64_t blocks = dimensions(model).layers; config.layer_num > blocks) {
    conflicts.push_back({"layer_num", fmt::format("{}, but the model has {} blocks; expected at "
                                                  "most that",
                                                  config.layer_num, blocks)});
  }
  return conflicts;
}

}  // namespace ds
