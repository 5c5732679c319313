// One ..._optim_states.pt of a DeepSpeed checkpoint: a rank's flat partitions of fp32 weights and
// of what its optimizer keeps, group by group.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/places.h"
#include "checkpoint/deepspeed/progress.h"
#include "checkpoint/deepspeed/saved_fields.h"

namespace ds::deepspeed {

// A name that stands for the fp32 weights among the slots.
inline constexpr const char* kWeightSlot = "fp32";

// What an optimizer keeps: its tensors by slot, "exp_avg", and how many updates it has made.
struct OptimizerGroup {
  std::map<std::string, const TorchTensor*> slots;
  std::optional<int64_t> updates;
};

struct OptimizerStates {
  int64_t stage = 0;
  int64_t partitions = 0;              // ranks that the groups are cut over
  std::vector<OptimizerGroup> groups;  // slots with kWeightSlot, one dimension each
  // NamedShape::padding of each parameter of each group; empty before 0.19.8.
  std::vector<std::vector<int64_t>> paddings;
  std::optional<SavedScaler> scaler;
  std::optional<double> rate;  // Progress::rate
  std::string version;
};

// DataError naming the file and the member that is missing or another than expected; Unsupported
// for what is not read, by its name.
OptimizerStates optimizer_states_of(const TorchFile& file);

// The state of each number in a state dict of PyTorch's optimizers ({"state": {0: {...}}}).
std::map<int64_t, OptimizerGroup> states_by_number(const SavedFields& optimizer);

// The rate that all groups of a state dict of PyTorch's optimizers have; nothing where they differ
// or do not say it.
std::optional<double> rate_of(const SavedFields& optimizer);

// LossScaler or DynamicLossScaler, or the numbers that an optimizer of fp16 keeps in their place;
// nothing where nothing scales.
std::optional<SavedScaler> scaler_of(const SavedFields& optimizer);

}  // namespace ds::deepspeed
