// What keeps the optimizer state of a group: made of its slices, wherever the policy puts it.
#include <algorithm>

#include "core/values/index.h"
#include "zero/shard_group.h"
#include "zero/state/frozen_weights.h"

namespace ds {
namespace {

// What a rank has of the parameter that it has most of.
int64_t largest_field(std::span<const StateSlice> slices) {
  int64_t largest = 1;
  for (const StateSlice& slice : slices) {
    for (const ShardField& field : slice.fields) largest = std::max(largest, field.numel);
  }
  return largest;
}

}  // namespace

void ShardGroup::make_frozen() {
  std::vector<FrozenSlice> slices;
  const bool whole = has_whole_state();
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    const Weights& weights = nth(weights_, b);
    FrozenSlice& made = slices.emplace_back();
    made.numel = whole ? nth(layout_.buckets(), b).numel : layout_.slice_numel(b);
    made.fields = fields_of(b, shard_rank());
    const int64_t kept = kept_numel(made.numel);
    if (offloads_weights(b)) {
      made.elsewhere = {.keeper = offloaded_, .slice = weights.offloaded};
    } else {
      made.kept =
          weights.sharded || whole ? weights.kept : weights.kept.narrow(comm_.rank() * kept, kept);
    }
  }
  state_ = make_frozen_weights(std::move(slices),
                               {.dtype = key_.dtype,
                                .code = key_.code,
                                .name = [this](int id) { return spec_of(id)->name; }},
                               streams_, slots_);
}

std::span<const Tensor> ShardGroup::auxiliary_of_state() const {
  return auxiliary_.values().last(state_->auxiliary().size());
}

std::vector<StateSlice> ShardGroup::state_slices() const {
  const bool whole_state = has_whole_state();
  std::vector<StateSlice> slices;
  for (int b = 0; b < narrow<int>(weights_.size()); ++b) {
    const Weights& weights = nth(weights_, b);
    const int64_t slice = layout_.slice_numel(b);
    StateSlice& made = slices.emplace_back();
    if (offloads_weights(b)) {
      made.elsewhere = {.keeper = offloaded_, .slice = weights.offloaded, .numel = slice};
    } else {
      made.weights = weights.sharded || whole_state
                         ? weights.kept
                         : weights.kept.narrow(comm_.rank() * slice, slice);
    }
    made.fields = fields_of(b, shard_rank());
    if (options_.offloads_state()) continue;
    made.grad = grads_->gradient(b);
    if (whole_state) made.own = {.begin = comm_.rank() * slice, .numel = slice};
  }
  return slices;
}

std::unique_ptr<OptimizerStateStore> ShardGroup::make_state(const OffloadPlace& offload,
                                                            std::string name) const {
  StateOptions state{
      .slots = slot_specs_,
      .grad_dtype = options_.wire.slice_dtype,
      .master_dtype = options_.state.masters == Masters::kWeights ? key_.dtype : DType::kF32,
      .weight_dtype = key_.dtype,
      .name = std::move(name)};
  const std::vector<StateSlice> slices = state_slices();
  if (!options_.offloads_state()) return make_device_state(state, slices, streams_.compute);
  const bool swaps = options_.placement.policy.state.tier == Tier::kNvme;
  DS_CHECK(!options_.state.update_ahead || (!sees_parameters_ && offload.updater != nullptr),
           "zero: an update ahead of the norm is element by element, by an updater");
  DS_CHECK(offload.host != nullptr, "zero: optimizer state is offloaded, and there is no host");
  DS_CHECK(
      options_.state.offload_ratio >= 1 || !sees_parameters_,
      "zero: {} of the state of an optimizer that sees whole parameters is offloaded, expected "
      "all of it",
      options_.state.offload_ratio);
  if (!sees_parameters_) {
    state.part_numel =
        options_.state.sub_group_numel > 0 ? options_.state.sub_group_numel : largest_field(slices);
  }
  const HostPlace host{
      .stream = *offload.host,
      .pinned = options_.state.pin_memory ? offload.pinned : nullptr,
      .updater = options_.state.update_ahead || options_.state.zenflow ? offload.updater : nullptr};
  if (options_.state.zenflow) return make_zenflow_state(state, slices, host);
  const auto beside = [&](const StateOptions& of) {
    if (!swaps) {
      return make_host_state(of, slices, streams_.compute, host);
    }
    DS_CHECK(offload.nvme != nullptr, "zero: optimizer state is swapped, and there is no place");
    return make_nvme_state(
        of, slices, streams_.compute, host,
        {.open = offload.open_swap, .account = *offload.nvme, .disk = offload.disk},
        options_.state.rolling);
  };
  if (options_.state.offload_ratio >= 1) return beside(state);
  StateOptions first = state;
  first.share = {.first = 0, .last = options_.state.offload_ratio};
  state.share = {.first = options_.state.offload_ratio, .last = 1};
  return make_split_state(beside(first), make_device_state(state, slices, streams_.compute));
}

}  // namespace ds
