#include "optim/grouped_optimizer.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/rng.h"

namespace ds {

bool is_mup(OptimizerType type) {
  return type == OptimizerType::kMuAdam || type == OptimizerType::kMuAdamW ||
         type == OptimizerType::kMuSgd;
}

namespace {

// The rates and decays of mup's MuAdam and MuSGD. Decay is scaled against the rate, so that their
// product is that of the base model.
GroupOptions scaled_by_width(GroupOptions options, const WidthFactors& factors, bool is_sgd) {
  double scale = 1;
  if (is_sgd && factors.infinite_axes == 1) scale = factors.width;
  if (is_sgd && factors.infinite_axes == 2) scale = 1 / factors.fan_in_over_out;
  if (!is_sgd && factors.infinite_axes == 2) scale = 1 / factors.width;
  options.lr_scale *= scale;
  options.weight_decay /= scale;
  return options;
}

}  // namespace

kernels::MomentFormat format_of(const SlotSpec& slot) {
  switch (slot.dtype) {
    case DType::kF32:
      return kernels::MomentFormat::kFp32;
    case DType::kBF16:
      return kernels::MomentFormat::kBf16;
    case DType::kU8:
      return slot.root ? kernels::MomentFormat::kMxFp8Root : kernels::MomentFormat::kMxFp8;
    default:
      throw InternalError(
          fmt::format("slot {}: state is not kept as {}", slot.name, name_of(slot.dtype)));
  }
}

void Optimizer::add_sums(std::span<Shard>, const StepScalars&, const UpdateGroup&, const Tensor&,
                         Stream&) const {
  throw InternalError(fmt::format("{}: adds up nothing of parameters", family()));
}

void Optimizer::move_weights(std::span<Shard>, const StepScalars&, const UpdateGroup&,
                             const Tensor&, Stream&) const {
  throw InternalError(fmt::format("{}: adds up nothing of parameters", family()));
}

std::vector<ParamPlace> Optimizer::place(std::span<const ParamFacts> params) {
  std::vector<ParamPlace> places;
  for (const ParamFacts& param : params) {
    places.push_back({.rows = param.shape.rank() == 2 ? param.shape[0] : 0,
                      .numel = param.shape.numel(),
                      .key = Rng(0, param.name).key()});
  }
  return places;
}

std::vector<std::string> Optimizer::slot_names() const {
  std::vector<std::string> names;
  for (const SlotSpec& slot : slots()) names.push_back(slot.name);
  return names;
}

GroupedOptimizer::GroupedOptimizer(const OptimizerConfig& config, double lr, double weight_decay)
    : type_(config.type.value_or(OptimizerType::kAdamW)),
      groups_(config.param_groups, {.weight_decay = weight_decay}, lr),
      base_shapes_(config.base_shapes),
      options_(groups_.options()) {}

const GroupOptions& GroupedOptimizer::options_of(int group) const { return nth(options_, group); }

std::vector<ParamPlace> GroupedOptimizer::place(std::span<const ParamFacts> params) {
  std::vector<ParamPlace> places = Optimizer::place(params);
  const std::vector<int> groups = groups_.assign(params);
  for (size_t i = 0; i < params.size(); ++i) {
    places[i].group = groups[i];
    if (!is_mup(type_)) continue;
    const GroupOptions options =
        scaled_by_width(options_of(groups[i]), width_factors(base_shapes_, params[i]),
                        type_ == OptimizerType::kMuSgd);
    const auto known = std::ranges::find(options_, options);
    places[i].group = narrow<int>(known - options_.begin());
    if (known == options_.end()) options_.push_back(options);
  }
  return places;
}

SlotSpec slot_spec(std::string name, MomentType type, StateSign sign, float initial) {
  const DType dtype = type == MomentType::kFp32   ? DType::kF32
                      : type == MomentType::kBf16 ? DType::kBF16
                                                  : DType::kU8;
  return {.name = std::move(name),
          .dtype = dtype,
          .root = dtype == DType::kU8 && sign == StateSign::kNotNegative,
          .initial = initial};
}

std::vector<kernels::StateTensor> states_of(const Shard& shard, std::span<const SlotSpec> specs,
                                            std::string_view family) {
  DS_CHECK(shard.slots.size() == specs.size(), "{}: {} slots given, expected {}", family,
           shard.slots.size(), specs.size());
  std::vector<kernels::StateTensor> states;
  for (size_t i = 0; i < specs.size(); ++i) {
    states.push_back({.values = shard.slots[i],
                      .scales = i < shard.scales.size() ? shard.scales[i] : Tensor(),
                      .format = format_of(specs[i])});
  }
  return states;
}

}  // namespace ds
