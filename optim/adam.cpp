#include <cmath>

#include "optim/optimizer.h"

namespace ds {
namespace {

class Adam final : public Optimizer {
 public:
  Adam(const AdamParams& params, kernels::WeightDecay decay)
      : params_(params),
        rule_{.eps = static_cast<float>(params.eps),
              .weight_decay = static_cast<float>(params.weight_decay),
              .decay = decay} {}

  std::string_view family() const override { return "adam"; }
  std::vector<SlotSpec> slots() const override {
    return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
  }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    const auto t = static_cast<double>(step);
    const bool corrected = params_.bias_correction;
    const auto [beta1, beta2] = hyper.betas.value_or(params_.betas);
    const StepInputs inputs{.lr = hyper.lr,
                            .beta1 = beta1,
                            .beta2 = beta2,
                            .correction1 = corrected ? 1.0 - std::pow(beta1, t) : 1.0,
                            .correction2 = corrected ? 1.0 - std::pow(beta2, t) : 1.0,
                            .step = step};
    DS_CHECK(inputs.correction1 > 0 && inputs.correction2 > 0,
             "adam: bias corrections of step {} are {} and {}, expected > 0", step,
             inputs.correction1, inputs.correction2);
    return inputs;
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, Communicator&,
            Stream& stream) const override {
    for (Shard& shard : parts) {
      DS_CHECK(shard.slots.size() == 2, "adam: {} slots given, expected 2", shard.slots.size());
      kernels::adam_update(stream,
                           {.master = shard.master,
                            .grad = shard.grad,
                            .exp_avg = shard.slots[0],
                            .exp_avg_sq = shard.slots[1],
                            .copy = shard.copy,
                            .rule = rule_},
                           scalars);
    }
  }

 private:
  const AdamParams params_;
  const kernels::AdamRule rule_;
};

}  // namespace

std::vector<std::string> Optimizer::slot_names() const {
  std::vector<std::string> names;
  for (const SlotSpec& slot : slots()) names.push_back(slot.name);
  return names;
}

std::unique_ptr<Optimizer> make_adam(const AdamParams& params, kernels::WeightDecay decay) {
  return std::make_unique<Adam>(params, decay);
}

}  // namespace ds
