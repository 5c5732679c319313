#include <cmath>

#include "optim/adam_inputs.h"
#include "optim/grouped_optimizer.h"

namespace ds {
namespace {

// With state and masters in fp32 by the kernel that is Adam's alone, else by the rules'.
class Adam final : public GroupedOptimizer {
 public:
  Adam(const OptimizerConfig& config, kernels::WeightDecay decay)
      : GroupedOptimizer(config, config.adam.lr, config.adam.weight_decay),
        params_(config.adam),
        decay_(decay),
        is_plain_(config.moment_dtype == MomentType::kFp32 && !config.adam.amsgrad),
        slots_{slot_spec("exp_avg", config.moment_dtype),
               slot_spec("exp_avg_sq", config.moment_dtype, StateSign::kNotNegative)} {
    if (!params_.amsgrad) return;
    slots_.push_back(slot_spec("max_exp_avg_sq", config.moment_dtype, StateSign::kNotNegative));
  }

  std::string_view family() const override { return "adam"; }
  std::vector<SlotSpec> slots_of(int /*kind*/) const override { return slots_; }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    return adam_inputs(hyper, params_.betas, params_.bias_correction, step);
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override {
    for (const Shard& shard : parts) {
      for_each_range(shard, group, [&](int options, const Shard& part, const Noise& noise) {
        const std::vector<kernels::StateTensor> states = states_of(part, slots_, family());
        const kernels::AdamRule rule = rule_of(options);
        if (is_plain_ && part.master.dtype() == DType::kF32) {
          return update(part, rule, scalars, stream);
        }
        rule_update(stream,
                    {.master = part.master,
                     .grad = part.grad,
                     .states = states,
                     .copy = part.copy,
                     .noise = noise},
                    kernels::AdamStateRule{.adam = rule, .amsgrad = params_.amsgrad}, scalars);
      });
    }
  }

 private:
  kernels::AdamRule rule_of(int group) const {
    const GroupOptions& options = options_of(group);
    return {.eps = static_cast<float>(params_.eps),
            .weight_decay = static_cast<float>(options.weight_decay),
            .decay = decay_,
            .lr_scale = options.lr_scale};
  }
  static void update(const Shard& part, const kernels::AdamRule& rule, const StepScalars& scalars,
                     Stream& stream) {
    kernels::adam_update(stream,
                         {.master = part.master,
                          .grad = part.grad,
                          .exp_avg = part.slots[0],
                          .exp_avg_sq = part.slots[1],
                          .copy = part.copy,
                          .rule = rule},
                         scalars);
  }

  const AdamParams params_;
  const kernels::WeightDecay decay_;
  const bool is_plain_;
  std::vector<SlotSpec> slots_;
};

}  // namespace

StepInputs adam_inputs(const Hyper& hyper, const std::array<double, 2>& own_betas,
                       bool bias_correction, int64_t step) {
  const auto t = static_cast<double>(step);
  const auto [beta1, beta2] = hyper.betas.value_or(own_betas);
  const StepInputs inputs{.lr = hyper.lr,
                          .beta1 = beta1,
                          .beta2 = beta2,
                          .correction1 = bias_correction ? 1.0 - std::pow(beta1, t) : 1.0,
                          .correction2 = bias_correction ? 1.0 - std::pow(beta2, t) : 1.0,
                          .step = step};
  DS_CHECK(inputs.correction1 > 0 && inputs.correction2 > 0,
           "adam: bias corrections of step {} are {} and {}, expected > 0", step,
           inputs.correction1, inputs.correction2);
  return inputs;
}

std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& config, kernels::WeightDecay decay) {
  return std::make_unique<Adam>(config, decay);
}

std::unique_ptr<Optimizer> make_adam(const AdamParams& params, kernels::WeightDecay decay) {
  return make_adam(OptimizerConfig{.adam = params}, decay);
}

}  // namespace ds
