// This file cuts a model into pipeline stages.
#include "model/parallel/pipeline_cut.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/text/name_pattern.h"
#include "core/values/index.h"
#include "core/values/partition.h"

namespace ds {

namespace {

constexpr std::string_view kTypePrefix = "type:";

}  // namespace

std::vector<int64_t> cut_layers(std::string_view method, std::span<const CutLayer> layers,
                                int stages) {
  const std::string lower = lower_case(method);
  if (lower == "uniform") return partition_uniform(narrow<int64_t>(layers.size()), stages);
  std::vector<double> weights;
  if (lower == "parameters") {
    for (const CutLayer& layer : layers) weights.push_back(static_cast<double>(layer.parameters));
  } else if (lower.starts_with(kTypePrefix)) {
    const NamePattern pattern("pipeline.partition", method.substr(kTypePrefix.size()),
                              NamePattern::Case::kIgnored);
    for (const CutLayer& layer : layers) weights.push_back(pattern.found_in(layer.type) ? 1 : 0);
    if (std::ranges::count(weights, 0) == std::ssize(weights)) {
      throw ConfigError(
          fmt::format("pipeline.partition: none of the {} layers has a class name with '{}'; name "
                      "one of theirs",
                      layers.size(), method.substr(kTypePrefix.size())));
    }
  } else {
    throw ConfigError(fmt::format(
        "pipeline.partition is '{}', expected uniform, parameters or type:PATTERN", method));
  }
  return partition_balanced(weights, stages);
}

bool is_best(std::string_view method) { return lower_case(method) == "best"; }

std::vector<LayerRange> cut_ranges(std::string_view method, std::span<const CutLayer> layers,
                                   int parts) {
  if (parts > narrow<int>(layers.size())) {
    throw ConfigError(fmt::format("pipeline.partition: {} layers in {} parts, expected one each",
                                  layers.size(), parts));
  }
  const std::vector<int64_t> bounds =
      cut_layers(is_best(method) ? "parameters" : method, layers, parts);
  std::vector<LayerRange> ranges;
  for (int part = 0; part < parts; ++part) {
    const LayerRange range{nth(bounds, part), nth(bounds, part + 1)};
    DS_CHECK(range.begin < range.end, "pipeline.partition: part {} of {} has no layer", part,
             parts);
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace ds
