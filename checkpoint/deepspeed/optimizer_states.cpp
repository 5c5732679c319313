#include "checkpoint/deepspeed/optimizer_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

std::optional<int64_t> whole_number(const TorchFile& file, const TorchValue& value,
                                    const std::string& name) {
  const std::optional<double> number = number_of(file, value);
  constexpr double kMost = 9007199254740992;  // beyond it not every integer is a double
  if (!number || *number < 0 || *number > kMost || *number != std::floor(*number)) {
    throw DataError(fmt::format("{} is no number of updates", name));
  }
  return static_cast<int64_t>(*number);
}

OptimizerGroup group_of(const SavedFields& state) {
  OptimizerGroup group;
  for (const auto& [key, value] : state.dict().items) {
    const std::optional<std::string_view> name = key.as_text();
    if (!name) throw DataError(fmt::format("{} has a key that is no name", state.name_of()));
    if (*name == "step") {
      group.updates = whole_number(state.file(), value, state.name_of(*name));
    } else if (value.as_tensor() != nullptr) {
      group.slots.emplace(*name, value.as_tensor());
    }
  }
  return group;
}

// partition_count is a list where groups of experts have another number than the rest.
int64_t partitions_of(const SavedFields& optimizer) {
  const TorchValue& value = optimizer.at("partition_count");
  if (const std::optional<int64_t> count = value.as_int()) return *count;
  const TorchList* list = value.as_sequence();
  if (list == nullptr || list->items.empty()) {
    optimizer.refuse("partition_count", "an integer or a list of them");
  }
  const std::optional<int64_t> first = list->items.front().as_int();
  for (const TorchValue& item : list->items) {
    if (!item.as_int()) optimizer.refuse("partition_count", "an integer or a list of them");
    if (item.as_int() != first) {
      throw Unsupported(
          fmt::format("{} differs between groups, as with a mixture of experts; checkpoints of "
                      "those are not read",
                      optimizer.name_of("partition_count")));
    }
  }
  return *first;
}

// An enumeration is saved as the call of its class with the number; older versions save the number.
int64_t stage_of(const SavedFields& optimizer) {
  const TorchValue* value = optimizer.find("zero_stage");
  if (value == nullptr) return 1;  // the optimizer of bf16 does not say it and is like stage 1
  if (const std::optional<int64_t> number = value->as_int()) return *number;
  const TorchRecord* record = value->as_record();
  if (record == nullptr || record->name != "ZeroStageEnum" || record->arguments.size() != 1 ||
      !record->arguments[0].as_int()) {
    optimizer.refuse("zero_stage", "an integer or a ZeroStageEnum");
  }
  return *record->arguments[0].as_int();
}

std::vector<std::vector<int64_t>> paddings_of(const SavedFields& optimizer) {
  constexpr std::string_view kKey = "param_alignment_paddings";
  std::vector<std::vector<int64_t>> paddings;
  if (optimizer.find(kKey) == nullptr) return paddings;
  for (const TorchValue& group : optimizer.list(kKey).items) {
    paddings.push_back(extents_of(group, optimizer.name_of(kKey)));
  }
  return paddings;
}

std::vector<const TorchTensor*> flat_tensors(const SavedFields& optimizer, std::string_view key) {
  std::vector<const TorchTensor*> tensors;
  for (const TorchValue& item : optimizer.list(key).items) {
    const TorchTensor* tensor = item.as_tensor();
    if (tensor == nullptr || tensor->shape.size() != 1) {
      optimizer.refuse(key, "a list of tensors of one dimension");
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace

std::map<int64_t, OptimizerGroup> states_by_number(const SavedFields& optimizer) {
  const SavedFields states = optimizer.fields("state");
  std::map<int64_t, OptimizerGroup> groups;
  for (const auto& [key, value] : states.dict().items) {
    const std::optional<int64_t> number = key.as_int();
    const TorchDict* state = value.as_dict();
    if (!number || state == nullptr) {
      throw DataError(fmt::format("{}: expected a dict of each parameter's state by its number",
                                  states.name_of()));
    }
    const std::string path = fmt::format("state[{}]", *number);
    groups.emplace(*number, group_of(SavedFields(states.file(), *state, path)));
  }
  return groups;
}

std::optional<double> rate_of(const SavedFields& optimizer) {
  std::optional<double> rate;
  if (optimizer.find("param_groups") == nullptr) return rate;
  for (const TorchValue& item : optimizer.list("param_groups").items) {
    const TorchDict* group = item.as_dict();
    const TorchValue* value = group == nullptr ? nullptr : group->find("lr");
    const std::optional<double> own =
        value == nullptr ? std::nullopt : number_of(optimizer.file(), *value);
    if (!own || !std::isfinite(*own) || (rate && *rate != *own)) return std::nullopt;
    rate = own;
  }
  return rate;
}

std::optional<SavedScaler> scaler_of(const SavedFields& optimizer) {
  const TorchValue* value = optimizer.find("loss_scaler");
  if (value == nullptr) return std::nullopt;
  const TorchRecord* record = value->as_record();
  const TorchDict* state = record == nullptr ? nullptr : record->state.as_dict();
  if (state == nullptr) optimizer.refuse("loss_scaler", "a LossScaler or DynamicLossScaler");
  const SavedFields fields(optimizer.file(), *state, "loss_scaler");
  SavedScaler scaler;
  scaler.is_dynamic = record->name == "DynamicLossScaler";
  const std::optional<double> scale = number_of(fields.file(), fields.at("cur_scale"));
  if (!scale || !std::isfinite(*scale) || *scale <= 0)
    fields.refuse("cur_scale", "a scale above 0");
  scaler.scale = *scale;
  if (scaler.is_dynamic) {
    scaler.iterations = fields.integer("cur_iter");
    scaler.last_overflow = fields.integer("last_overflow_iter");
    scaler.hysteresis = fields.optional_integer("cur_hysteresis");
  }
  const bool scales = scaler.is_dynamic || scaler.scale != 1;
  return scales ? std::optional(scaler) : std::nullopt;
}

OptimizerStates optimizer_states_of(const TorchFile& file) {
  const SavedFields root(file);
  const SavedFields optimizer = root.fields("optimizer_state_dict");
  OptimizerStates states;
  states.stage = stage_of(optimizer);
  states.partitions = partitions_of(optimizer);
  states.scaler = scaler_of(optimizer);
  states.paddings = paddings_of(optimizer);
  states.version = root.optional_text("ds_version");
  const bool partitioned = states.stage == 3;
  const std::string_view weights =
      partitioned ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
  const std::string_view base = partitioned ? "optimizer_state_dict" : "base_optimizer_state";
  if (const TorchValue* state = optimizer.find(base);
      state != nullptr && state->as_sequence() != nullptr) {
    throw Unsupported(
        fmt::format("{} is that of an elastic checkpoint (zero_elastic_checkpoint), "
                    "which is not read",
                    optimizer.name_of(base)));
  }
  std::map<int64_t, OptimizerGroup> groups;
  if (const auto fields = optimizer.optional_fields(base)) {
    groups = states_by_number(*fields);
    states.rate = rate_of(*fields);
  }
  int64_t number = 0;
  for (const TorchTensor* tensor : flat_tensors(optimizer, weights)) {
    OptimizerGroup& group = states.groups.emplace_back(groups[number]);
    group.slots[kWeightSlot] = tensor;
    ++number;
  }
  return states;
}

}  // namespace ds::deepspeed
