// Which eigenvalues are looked for, and how well: the "eigenvalue" section as an engine is told of
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/families/list.h"
#include "config/sections/eigenvalue.h"
#include "train/settings/power_iteration.h"

namespace ds {

struct EigenvalueOptions {
  PowerRules rules{};
  int64_t every = 1;     // steps
  std::string list{};    // "transformer.h": of the blocks, as their parameters are named
  int64_t blocks = 0;    // the first ones of the list
  bool verbose = false;  // each estimate is told
};

// Nothing where the section is off. ConfigError for blocks that the model does not have.
std::optional<EigenvalueOptions> eigenvalue_options(const EigenvalueConfig& config,
                                                    const ModelConfig& model);

}  // namespace ds
