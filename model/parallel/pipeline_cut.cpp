// Where a model is cut into pipeline stages.
#include "model/parallel/pipeline_cut.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/partition.h"
#include "model/name_pattern.h"

namespace ds {

namespace {

constexpr std::string_view kTypePrefix = "type:";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

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

}  // namespace ds
