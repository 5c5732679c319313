// ZeroOptions: how a sharded store lays parameters out, where it places what, how it keeps the
// optimizer's state, and how gradients travel.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/quantize/block_codes.h"
#include "model/pass/param.h"
#include "optim/optimizer.h"
#include "zero/layout/gather_plan.h"
#include "zero/layout/policy.h"
#include "zero/reduce/sink_factory.h"
#include "zero/state/offloaded_weights.h"
#include "zero/state/optimizer_state_store.h"
#include "zero/zenflow/schedule.h"

namespace ds {

// What updates change: fp32 masters of the weights, or these themselves, whatever their dtype is.
enum class Masters : uint8_t { kFp32, kWeights };

// How parameters are laid out in buckets, and when these are gathered.
struct ZeroLayout {
  int64_t bucket_numel = 500'000'000;
  int64_t persistence_numel = 100'000;
  GatherLimits gather = {};
  // These parameters do not train, nor do those whose specs say so.
  std::set<std::string> frozen = {};
  // Frozen weights of linear layers are kept as these codes; nothing: as they are.
  std::optional<kernels::BlockCode> base_code = std::nullopt;
};

// What is sharded, and on which tier it lies.
struct ZeroPlacement {
  ZeroPolicy policy = {};
  WeightOffload weights = {};  // where policy.params is on another tier
};

// How the optimizer's state is kept.
struct ZeroState {
  std::vector<SlotSpec> slots = {};  // of the optimizer; where one is named, it says so itself
  Optimizer* optimizer = nullptr;    // whose state is kept; outlives the store
  Masters masters = Masters::kFp32;
  // This seeds the random numbers that round weights in bf16 which are masters; nothing: they are
  // rounded to nearest.
  std::optional<uint64_t> rounding_seed = std::nullopt;
  // Elements of offloaded state that are updated, and handed to checkpoints, in one piece; 0: as
  // many as the rank has of its largest parameter. On the device a rank's slice of a bucket is one:
  // there is nothing that cutting it would save.
  int64_t sub_group_numel = INT64_MAX;
  // If policy.state is not on the device, its update begins as soon as gradients are final, before
  // their norm is known, and is undone if the norm asks for another update.
  bool update_ahead = false;
  // If policy.state is on the host, important weights are updated on the device, and the others now
  // and then.
  std::optional<ZenflowOptions> zenflow = std::nullopt;
  // If policy.state is not on the device, these say which share of each slice is offloaded, and
  // how.
  double offload_ratio = 1;
  bool pin_memory = false;
  NvmeStateOptions rolling = {};
};

// How gradients travel and are summed.
struct ZeroWire {
  DType slice_dtype = DType::kF32;  // of sums over micro-steps
  // In which dtype gradients travel, of all modules or of some; nothing: as they are written.
  std::optional<DType> dtype = std::nullopt;
  std::vector<ModuleKind> modules = {};  // none: all
  // Other ranks are sent only the rows of a looked-up table that so many tokens of a micro-batch
  // touch, if that is less than the whole table; 0: they are always sent the whole.
  int64_t sparse_tokens = 0;
  Reduce reduce = Reduce::kEachMicroStep;
  int micro_steps = 1;
};

struct ZeroOptions {
  ZeroLayout layout = {};
  ZeroPlacement placement = {};
  ZeroState state = {};
  ZeroWire wire = {};

  bool offloads_state() const { return placement.policy.state.tier != Tier::kDevice; }
  // What a thread that talks to peers (zero/peers) cannot go with; empty: nothing.
  std::string_view why_no_peer_thread() const {
    if (placement.policy.params.tier != Tier::kDevice || offloads_state()) {
      return "weights or state are offloaded";
    }
    return wire.sparse_tokens > 0 ? "gradients go by rows" : "";
  }
};

}  // namespace ds
