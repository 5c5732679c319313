#include "train/settings/eigenvalue_options.h"

#include <fmt/format.h>

#include "core/status/error.h"

namespace ds {

std::optional<EigenvalueOptions> eigenvalue_options(const EigenvalueConfig& config,
                                                    const ModelConfig& model) {
  if (!config.enabled) return std::nullopt;
  for (const SizeConflict& conflict : eigenvalue_conflicts(config, model)) {
    throw ConfigError(fmt::format("eigenvalue.{}: {}", conflict.key, conflict.why));
  }
  return EigenvalueOptions{
      .rules = {.most = config.max_iter, .tolerance = config.tol, .stability = config.stability},
      .every = config.gas_boundary_resolution,
      .list = config.layer_name,
      .blocks = config.layer_num,
      .verbose = config.verbose};
}

}  // namespace ds
