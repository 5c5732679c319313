// Which parameters of a model do not train (pure), as patterns of names say: those that
// optimizer.param_groups has (optim/param_groups.h). A parameter fits also by the name of the
// tensor in which a folder stores it among others.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/pass/param.h"

namespace ds {

struct TrainedChoice {
  std::vector<std::string> train_only = {};  // none: all train
  std::vector<std::string> freeze = {};      // also of those

  bool is_all() const { return train_only.empty() && freeze.empty(); }
};

// ConfigError where a pattern fits no parameter, with what may have been meant, and where nothing
// is left that trains.
std::set<std::string> frozen_names(const TrainedChoice& choice, std::span<const ParamSpec> model);

}  // namespace ds
