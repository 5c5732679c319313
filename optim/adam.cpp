#include <cmath>

#include "kernels/update.h"
#include "optim/optimizer.h"

namespace ds {
namespace {

class Adam final : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options) : options_(options) {}

  std::string_view family() const override { return "adam"; }
  std::vector<std::string> slot_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  MomentumSupport momentum_support() const override { return MomentumSupport::kBetas; }

  void step(Shard& shard, const Hyper& hyper, int64_t step, Stream& stream) const override {
    const auto t = static_cast<double>(step);
    const bool corrected = options_.bias_correction;
    const auto [beta1, beta2] = hyper.betas.value_or(options_.betas);
    kernels::adam_update(stream,
                         {.master = shard.master,
                          .grad = shard.grad,
                          .exp_avg = shard.slots.at(0),
                          .exp_avg_sq = shard.slots.at(1),
                          .copy = shard.copy,
                          .grad_scale = hyper.grad_scale,
                          .lr = static_cast<float>(hyper.lr),
                          .beta1 = static_cast<float>(beta1),
                          .beta2 = static_cast<float>(beta2),
                          .eps = static_cast<float>(options_.eps),
                          .weight_decay = static_cast<float>(options_.weight_decay),
                          .decay = options_.decoupled_decay ? kernels::WeightDecay::kDecoupled
                                                            : kernels::WeightDecay::kL2,
                          .bias_correction1 = corrected ? 1.0 - std::pow(beta1, t) : 1.0,
                          .bias_correction2 = corrected ? 1.0 - std::pow(beta2, t) : 1.0});
  }

 private:
  const AdamOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const AdamOptions& options) {
  return std::make_unique<Adam>(options);
}

}  // namespace ds
