// Lion, Adagrad and SGD over shards.
#include "optim/rule_optimizer.h"

#include <array>

#include "kernels/step/rule_update.h"
#include "optim/rules.h"

namespace ds {
namespace {

// What checkpoints call a rule and its state.
struct Labels {
  std::string_view family;
  std::vector<SlotSpec> slots;
};
Labels labels_of(const LionParams&) { return {"lion", {{.name = "exp_avg"}}}; }
Labels labels_of(const AdagradParams&) { return {"adagrad", {{.name = "sum"}}}; }
Labels labels_of(const SgdParams& rule) {
  if (rule.momentum == 0) return {"sgd", {}};
  return {"sgd", {{.name = "momentum_buffer"}}};
}

template <class Params>
constexpr bool kHasBetas = requires(Params params) {
  params.betas;
};

template <class Params>
class RuleOptimizer final : public Optimizer {
 public:
  explicit RuleOptimizer(const Params& params)
      : params_(params), rule_(rule_of(params)), labels_(labels_of(params)) {}

  std::string_view family() const override { return labels_.family; }
  std::vector<SlotSpec> slots() const override { return labels_.slots; }
  MomentumSupport momentum_support() const override {
    return kHasBetas<Params> ? MomentumSupport::kBetas : MomentumSupport::kNone;
  }

  StepInputs inputs(const Hyper& hyper, int64_t step) const override {
    StepInputs inputs{.lr = hyper.lr, .step = step};
    if constexpr (kHasBetas<Params>) {
      const auto [beta1, beta2] = hyper.betas.value_or(params_.betas);
      inputs.beta1 = beta1;
      inputs.beta2 = beta2;
    }
    return inputs;
  }

  void step(std::span<Shard> parts, const StepScalars& scalars, Communicator&,
            Stream& stream) const override {
    for (Shard& shard : parts) {
      DS_CHECK(shard.slots.size() == labels_.slots.size(), "{}: {} slots given, expected {}",
               labels_.family, shard.slots.size(), labels_.slots.size());
      kernels::rule_update(stream,
                           {.master = shard.master,
                            .grad = shard.grad,
                            .state = shard.slots.empty() ? Tensor() : shard.slots[0],
                            .copy = shard.copy},
                           rule_, scalars);
    }
  }

 private:
  const Params params_;
  const decltype(rule_of(std::declval<Params>())) rule_;
  const Labels labels_;
};

// Calls `use` with the parameters of the type: the one list of the optimizers of this build.
template <class Use>
auto with_params(const OptimizerConfig& c, const Use& use) {
  switch (c.type.value_or(OptimizerType::kAdamW)) {
    case OptimizerType::kAdam:
    case OptimizerType::kAdamW:
      return use(c.adam);
    case OptimizerType::kLion:
      return use(c.lion);
    case OptimizerType::kAdagrad:
      return use(c.adagrad);
    case OptimizerType::kSgd:
      return use(c.sgd);
    default:
      throw Unsupported("optimizer.type: this build has Adam, AdamW, Lion, Adagrad and SGD");
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  using Made = std::unique_ptr<Optimizer>;
  return with_params(config, [&]<class Params>(const Params& params) -> Made {
    if constexpr (std::is_same_v<Params, AdamParams>) {
      return make_adam(params, decays_decoupled(config) ? kernels::WeightDecay::kDecoupled
                                                        : kernels::WeightDecay::kL2);
    } else {
      return std::make_unique<RuleOptimizer<Params>>(params);
    }
  });
}

double learning_rate(const OptimizerConfig& config) {
  return with_params(config, [](const auto& params) { return params.lr; });
}

}  // namespace ds
