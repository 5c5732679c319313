// StoreParts: what a sharded store is made of, which its faces share: the step
// (zero/store_step.h), gathers (zero/gather_record.h) and visits to state (zero/state_visitor.h).
#pragma once

#include <memory>
#include <ranges>
#include <vector>

#include "core/values/index.h"
#include "zero/shard_group.h"

namespace ds {

struct StoredParam {
  ParamSpec spec;
  int uses = 1;
  int group = -1;
  int index = 0;  // within the group
};

// Groups and what is known of the model are there when the store is sealed.
struct StoreParts {
  const ZeroOptions options;
  std::unique_ptr<OffloadedWeights> offloaded{};  // null: nothing is
  std::vector<StoredParam> params{};
  std::vector<ParamSpec> model{};    // empty: all of it is here
  std::vector<int> model_kinds{};    // likewise: of its parameters, the optimizer's
  std::vector<ParamPlace> places{};  // of each parameter, at the optimizer's; empty without one
  std::vector<std::unique_ptr<ShardGroup>> groups{};

  const StoredParam& param(ParamId id) const {
    DS_CHECK(id >= 0 && id < narrow<int>(params.size()), "parameter store: parameter {} of {}", id,
             params.size());
    return nth(params, id);
  }
  ShardGroup& group_of(const StoredParam& of) const { return *nth(groups, of.group); }
  auto training() const {  // those of the groups that train
    return groups | std::views::filter([](const auto& group) { return group->trains(); });
  }
};

}  // namespace ds
