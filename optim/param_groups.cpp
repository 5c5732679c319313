#include "optim/param_groups.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

bool name_fits(std::span<const std::string> patterns, std::string_view name) {
  const std::string whole(name);
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), whole.c_str(), 0) == 0;
         });
}

namespace {

bool fits(const ParamGroupConfig& group, const ParamFacts& param) {
  return name_fits(group.match, param.name) &&
         (!group.max_dims || param.shape.rank() <= *group.max_dims);
}

}  // namespace

ParamGroups::ParamGroups(std::span<const ParamGroupConfig> groups, const GroupOptions& own,
                         double lr)
    : patterns_(groups.begin(), groups.end()), options_{own} {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const ParamGroupConfig& group = patterns_[i];
    if (group.lr && lr == 0) {
      throw ConfigError(
          fmt::format("optimizer.param_groups[{}].lr: {}, but optimizer.params.lr is 0, and rates "
                      "of groups stand in proportion to it",
                      i, *group.lr));
    }
    options_.push_back({.lr_scale = group.lr ? *group.lr / lr : own.lr_scale,
                        .weight_decay = group.weight_decay.value_or(own.weight_decay),
                        .use_muon = group.use_muon,
                        .non_freeze = group.non_freeze.value_or(false)});
  }
}

std::vector<int> ParamGroups::assign(std::span<const ParamFacts> params) const {
  std::vector<int> groups;
  std::vector<int> members(options_.size());
  for (const ParamFacts& param : params) {
    const auto found = std::ranges::find_if(
        patterns_, [&](const ParamGroupConfig& group) { return fits(group, param); });
    const int group = found == patterns_.end() ? 0 : narrow<int>(found - patterns_.begin()) + 1;
    groups.push_back(group);
    ++nth(members, group);
  }
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (members[i + 1] > 0) continue;
    throw ConfigError(
        fmt::format("optimizer.param_groups[{}]: no parameter that no group before it has fits {}; "
                    "the first is called {}",
                    i, fmt::join(patterns_[i].match, ", "), params.empty() ? "" : params[0].name));
  }
  return groups;
}

WidthFactors width_factors(std::span<const BaseShapeConfig> base_shapes, const ParamFacts& param) {
  const auto base = std::ranges::find_if(base_shapes, [&](const BaseShapeConfig& candidate) {
    return name_fits(candidate.match, param.name);
  });
  if (base == base_shapes.end()) {
    throw ConfigError(
        fmt::format("optimizer.base_shapes: none fits {}, whose shape is {}; without it nobody "
                    "knows which of its axes grow with the width of the model",
                    param.name, param.shape.to_string()));
  }
  if (narrow<int>(base->shape.size()) != param.shape.rank()) {
    throw ConfigError(fmt::format("optimizer.base_shapes: that of {} is [{}], its own is {}",
                                  param.name, fmt::join(base->shape, ", "),
                                  param.shape.to_string()));
  }
  WidthFactors factors;
  std::vector<double> infinite;
  for (int axis = 0; axis < param.shape.rank(); ++axis) {
    const int64_t of_base = nth(base->shape, axis);
    if (of_base == param.shape[axis]) continue;
    infinite.push_back(static_cast<double>(param.shape[axis]) / static_cast<double>(of_base));
  }
  factors.infinite_axes = narrow<int>(infinite.size());
  if (infinite.size() > 2) {
    throw Unsupported(fmt::format("muP: {} grows along {} axes, and it has rules for two",
                                  param.name, infinite.size()));
  }
  if (!infinite.empty()) factors.width = infinite.back();
  if (infinite.size() == 2) factors.fan_in_over_out = infinite[1] / infinite[0];
  return factors;
}

}  // namespace ds
