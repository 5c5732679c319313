#include <cmath>

#include "optim/optimizer.h"

namespace ds {
namespace {

class Adam final : public Optimizer {
 public:
  Adam(const AdamParams& params, kernels::WeightDecay decay) : params_(params), decay_(decay) {}

  std::string_view family() const override { return "adam"; }
  std::vector<std::string> slot_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }

  void step(Shard& shard, const Hyper& hyper, int64_t step, Stream& stream) const override {
    const auto t = static_cast<double>(step);
    const bool corrected = params_.bias_correction;
    const auto [beta1, beta2] = hyper.betas.value_or(params_.betas);
    kernels::adam_update(stream, {.master = shard.master,
                                  .grad = shard.grad,
                                  .exp_avg = shard.slots.at(0),
                                  .exp_avg_sq = shard.slots.at(1),
                                  .copy = shard.copy,
                                  .grad_scale = hyper.grad_scale,
                                  .lr = static_cast<float>(hyper.lr),
                                  .beta1 = static_cast<float>(beta1),
                                  .beta2 = static_cast<float>(beta2),
                                  .eps = static_cast<float>(params_.eps),
                                  .weight_decay = static_cast<float>(params_.weight_decay),
                                  .decay = decay_,
                                  .bias_correction1 = corrected ? 1.0 - std::pow(beta1, t) : 1.0,
                                  .bias_correction2 = corrected ? 1.0 - std::pow(beta2, t) : 1.0});
  }

 private:
  const AdamParams params_;
  const kernels::WeightDecay decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const AdamParams& params, kernels::WeightDecay decay) {
  return std::make_unique<Adam>(params, decay);
}

}  // namespace ds
