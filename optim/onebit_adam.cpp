// 1-bit Adam over shards: after the warm-up the variance stays as it is, every rank's own gradient
// goes into its momentum, and momenta are averaged in one bit.
#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "optim/adam_inputs.h"
#include "optim/grouped_optimizer.h"
#include "optim/onebit.h"
#include "optim/onebit_stages.h"

namespace ds {
namespace {

using kernels::OneBitPart;

constexpr int kCompressed = 0, kWhole = 1;  // kinds

class OneBitAdam final : public GroupedOptimizer {
 public:
  explicit OneBitAdam(const OptimizerConfig& config)
      : GroupedOptimizer(config, config.onebit_adam.lr, config.onebit_adam.weight_decay),
        params_(config.onebit_adam) {
    detail::require_fp32_state(config);
  }

  std::string_view family() const override { return "onebit_adam"; }
  std::vector<ParamPlace> place(std::span<const ParamFacts> params) override {
    std::vector<ParamPlace> places = GroupedOptimizer::place(params);
    for (ParamPlace& place : places) {
      place.kind = options_of(place.group).non_freeze ? kWhole : kCompressed;
    }
    return places;
  }
  int kinds() const override { return 2; }
  std::vector<SlotSpec> slots_of(int /*kind*/) const override { return slots_; }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }
  bool is_staged() const override { return true; }
  GradientsOf gradients_at(int64_t update) const override { return gradients_of(stage(update)); }
  std::vector<int64_t> kinds_of_updates(int64_t last) const override {
    return onebit_kinds_of_updates(last, params_.freeze_step);
  }
  std::vector<AuxiliarySpec> auxiliary_of(std::span<const Shard> parts, int ranks) const override {
    return detail::errors_by_param(parts, ranks);
  }
  std::vector<std::string> extra_names() const override {
    return {detail::kWorkerError, detail::kServerError};
  }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    return adam_inputs(hyper, params_.betas, false, step);
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override {
    switch (stage(group.number.update)) {
      case OneBitStage::kSetUp:
        return;
      case OneBitStage::kWarmUp:
        return move(OneBitPart::kAll, parts, scalars, group, stream);
      case OneBitStage::kCompressed:
        break;
    }
    if (detail::is_skipped(scalars)) return;
    if (is_whole(parts, group)) {
      for (Shard& shard : parts) group.ranks.all_reduce(shard.grad, ReduceOp::kAverage, stream);
      return move(OneBitPart::kAll, parts, scalars, group, stream);
    }
    move(OneBitPart::kMomentum, parts, scalars, group, stream);
    if (group.ranks.size() > 1) {
      OneBitComm(group.ranks).average(detail::onebit_params(parts, 0, group.auxiliary), stream);
    }
    move(OneBitPart::kWeight, parts, scalars, group, stream);
  }

 private:
  OneBitStage stage(int64_t update) const { return onebit_stage(update, params_.freeze_step); }

  // The parts are of one kind.
  static bool is_whole(std::span<const Shard> parts, const UpdateGroup& group) {
    for (const Shard& shard : parts) {
      if (shard.fields.empty() || group.params.empty()) continue;
      return nth(group.params, shard.fields.front().param).kind == kWhole;
    }
    return false;
  }

  void move(OneBitPart what, std::span<const Shard> parts, const StepScalars& scalars,
            const UpdateGroup& group, Stream& stream) const {
    for (const Shard& shard : parts) {
      for_each_range(shard, group, [&](int options, const Shard& part, const Noise& /*noise*/) {
        const GroupOptions& of = options_of(options);
        kernels::rule_update(
            stream,
            {.master = part.master,
             .grad = part.grad,
             .states = states_of(part, slots_, family()),
             .copy = part.copy},
            kernels::OneBitRule{.eps = static_cast<float>(params_.eps),
                                .weight_decay = static_cast<float>(of.weight_decay),
                                .part = what,
                                .lr_scale = of.lr_scale},
            scalars);
      });
    }
  }

  const OneBitAdamParams params_;
  const std::vector<SlotSpec> slots_{{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
};

}  // namespace

std::unique_ptr<Optimizer> make_onebit_adam(const OptimizerConfig& config) {
  return std::make_unique<OneBitAdam>(config);
}

}  // namespace ds
