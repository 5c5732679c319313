// Parameter groups (pure): which options a parameter has, by its name and its shape. Group 0 has
// the options of the optimizer itself.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "config/sections/optimizer.h"
#include "core/values/shape.h"

namespace ds {

// What an optimizer is told of a parameter.
struct ParamFacts {
  std::string_view name;
  Shape shape;  // as it is here
};

// What it makes of it.
struct ParamPlace {
  int kind = 0;      // how its state is kept: see Optimizer::slots_of()
  int group = 0;     // which options it has
  int64_t rows = 0;  // of a matrix; 0: it is none
  int64_t numel = 0;
  uint64_t key = 0;  // made of its name: what random numbers of its own start from
  bool operator==(const ParamPlace&) const = default;
};

struct GroupOptions {
  double lr_scale = 1;  // the group's rate stands to the optimizer's like this at every step
  double weight_decay = 0;
  std::optional<bool> use_muon = {};
  bool non_freeze = false;
  bool operator==(const GroupOptions&) const = default;
};

class ParamGroups {
 public:
  // The groups of a configuration, for an optimizer with this rate and weight decay. ConfigError
  // where a group has a rate and the optimizer's is 0: rates of schedules are scaled by the
  // quotient.
  ParamGroups(std::span<const ParamGroupConfig> groups, const GroupOptions& own, double lr);

  // The groups of these parameters, one each. ConfigError where a group has none: its pattern is
  // not what the author believes.
  std::vector<int> assign(std::span<const ParamFacts> params) const;
  const std::vector<GroupOptions>& options() const { return options_; }

 private:
  std::vector<ParamGroupConfig> patterns_;
  std::vector<GroupOptions> options_;
};

// Whether one of the patterns is that of the whole name: * is any text, ? one character, [ab] one
// of these. No patterns: every name.
bool name_fits(std::span<const std::string> patterns, std::string_view name);

// These are the optimizer's part of muP (Yang et al., arXiv 2203.03466), as the package mup has it:
// by how much the width of a parameter is that of the base model, axis by axis. An axis of the base
// model's size counts as finite.
struct WidthFactors {
  int infinite_axes = 0;
  double width = 1;  // of the last infinite axis
  double fan_in_over_out = 1;
};
// ConfigError where no base shape fits the name, or one with another number of axes; Unsupported
// where more than two axes are infinite.
WidthFactors width_factors(std::span<const BaseShapeConfig> base_shapes, const ParamFacts& param);

}  // namespace ds
