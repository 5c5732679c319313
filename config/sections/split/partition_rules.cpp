#include "config/sections/split/partition_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "config/reader/enum_name.h"
#include "core/status/error.h"
#include "core/text/name_pattern.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr auto kColumn = PartitionType::kColumn;
constexpr auto kRow = PartitionType::kRow;

// A rule as it is looked for; of other models it has no patterns.
std::vector<std::vector<NamePattern>> patterns_of(const PartitionConfig& rules,
                                                  std::string_view type) {
  std::vector<std::vector<NamePattern>> found;
  for (const LayerSpecConfig& rule : rules.layer_specs) {
    std::vector<NamePattern>& patterns = found.emplace_back();
    if (rule.model_types && !std::ranges::count(*rule.model_types, type)) continue;
    for (const std::string& text : rule.patterns) {
      patterns.emplace_back("patterns", "^(?:" + text + ")", NamePattern::Case::kExact);
    }
  }
  return found;
}

// Each expert is a branch, by the names that folders have.
void add_experts(const ExpertsSpec& spec,
                 std::vector<std::pair<std::string, BranchSpec>>& branches) {
  const auto& [gate, up, down] = spec.projections;
  const BranchSpec expert{.in = {{gate}, {up}}, .out = {down}};
  for (int64_t i = 0; i < spec.count; ++i) {
    branches.emplace_back(fmt::format("{}.{}", spec.name, spec.module_of(i)), expert);
  }
  if (!spec.shared) return;
  branches.emplace_back(fmt::format("{}.{}", spec.name, spec.shared->name), expert);
}

std::string conflict_of(const SplitWeight& weight, const PartitionConfig& rules,
                        std::optional<int> rule) {
  if (!rule) {
    if (rules.use_default_specs || !weight.needs_rule) return "";
    return fmt::format(
        "no rule is for {}, which would stay whole, and ranks share it here; add a rule with "
        "partition_type \"{}\", or leave use_default_specs true",
        weight.name, enum_name(weight.split));
  }
  const PartitionType asked = nth(rules.layer_specs, *rule).partition_type;
  if (asked == weight.split) return "";
  return fmt::format(
      "layer_specs[{}] says \"{}\" of {}, and its family splits that by \"{}\" alone; say that, or "
      "remove the rule",
      *rule, enum_name(asked), weight.name, enum_name(weight.split));
}

}  // namespace

std::vector<SplitWeight> split_weights(const ModelConfig& model) {
  const TransformerSpec spec = transformer_spec(model);
  const std::string blocks = block_list(model);
  std::vector<SplitWeight> weights{
      {.name = token_table(model), .split = kRow, .needs_rule = false}};
  for (int64_t layer = 0; layer < dimensions(model).layers; ++layer) {
    const auto add = [&](std::string_view branch, const ProjectionSpec& part, PartitionType split) {
      weights.push_back({.name = fmt::format("{}.{}.{}{}{}.weight", blocks, layer, branch,
                                             branch.empty() ? "" : ".", part.name),
                         .split = split});
    };
    std::vector<std::pair<std::string, BranchSpec>> branches{
        {std::string(spec.names.attention), spec.attention}};
    if (spec.experts && spec.experts->layers.is_of(layer)) {
      add_experts(*spec.experts, branches);
    } else {
      branches.emplace_back(spec.names.mlp, spec.mlp);
    }
    for (const auto& [name, branch] : branches) {
      const std::vector<ProjectionSpec> stored =
          branch.joined ? std::vector{ProjectionSpec{branch.joined->name}} : branch.in;
      for (const ProjectionSpec& part : stored) add(name, part, kColumn);
      add(name, branch.out, kRow);
    }
  }
  if (!ties_embeddings(model) && !model.classifier) {
    weights.push_back(
        {.name = fmt::format("{}.weight", spec.names.head), .split = kColumn, .needs_rule = false});
  }
  return weights;
}

PartitionFindings follow_rules(const ModelConfig& model, const PartitionConfig& rules) {
  PartitionFindings findings;
  const std::string_view type = family_name(model);
  std::vector<std::vector<NamePattern>> patterns;
  try {
    patterns = patterns_of(rules, type);
  } catch (const ConfigError& error) {
    findings.conflict = error.what();
    return findings;
  }
  std::vector<bool> is_used(patterns.size());
  for (const SplitWeight& weight : split_weights(model)) {
    const auto found = std::ranges::find_if(patterns, [&](const auto& rule) {
      return std::ranges::any_of(
          rule, [&](const NamePattern& pattern) { return pattern.found_in(weight.name); });
    });
    std::optional<int> rule;
    if (found != patterns.end()) {
      rule = narrow<int>(found - patterns.begin());
      is_used[to_size(*rule)] = true;
    }
    if (findings.conflict.empty()) findings.conflict = conflict_of(weight, rules, rule);
  }
  for (int i = 0; i < narrow<int>(is_used.size()); ++i) {
    if (!is_used[to_size(i)]) findings.idle.push_back(i);
  }
  return findings;
}

std::vector<std::string> PartitionFindings::notes() const {
  std::vector<std::string> notes;
  for (const int rule : idle) {
    notes.push_back(fmt::format("layer_specs[{}] is for no layer that ranks share", rule));
  }
  return notes;
}

}  // namespace ds
