// What a group of parameters has to do with ZenFlow.
#include <utility>

#include "zero/shard_group.h"
#include "zero/zenflow/zenflow_state_store.h"

namespace ds {
namespace {

std::vector<ZenflowMatrix> matrices_of(std::span<const ShardGroup::Param> params, double ratio) {
  std::vector<ZenflowMatrix> matrices;
  for (const ShardGroup::Param& param : params) {
    const Shape& shape = param.spec->shape;
    if (shape.rank() < 2) continue;
    if (shape != param.spec->logical_shape()) {
      throw Unsupported(
          fmt::format("zero: ZenFlow chooses columns of whole matrices, and ranks have parts of {}",
                      param.spec->name));
    }
    const int64_t columns = shape[shape.rank() - 1];
    matrices.push_back({.param = param.id,
                        .rows = shape.numel() / columns,
                        .columns = columns,
                        .chosen = important_columns(columns, ratio)});
  }
  return matrices;
}

}  // namespace

std::unique_ptr<OptimizerStateStore> ShardGroup::make_zenflow_state(
    const StateOptions& state, std::span<const StateSlice> slices, const HostPlace& host) const {
  DS_CHECK(!sees_parameters_ && !options_.state.update_ahead && options_.state.offload_ratio >= 1 &&
               options_.placement.policy.state.tier == Tier::kHost,
           "zero: ZenFlow is of state that is all on the host, element by element, and not updated "
           "ahead");
  return std::make_unique<ZenflowStateStore>(
      state, *options_.state.zenflow, slices,
      matrices_of(params_, options_.state.zenflow->topk_ratio),
      ZenflowStateStore::Place{comm_, streams_.compute, host});
}

// ZenFlow's are the last.
int ShardGroup::seen_slot() const {
  const bool has_one = key_.trains && options_.state.zenflow && options_.state.zenflow->overlaps;
  return has_one ? narrow<int>(slot_specs_.size()) - 1 : -1;
}

}  // namespace ds
