// Optimizers that work weight by weight, but for Adam.
#include "optim/rule_optimizer.h"

#include <array>

#include "optim/adam_inputs.h"
#include "optim/grouped_optimizer.h"
#include "optim/onebit.h"
#include "optim/rules.h"
#include "optim/whole_parameters.h"

namespace ds {
namespace {

// What checkpoints call a rule and its state.
struct Labels {
  std::string_view family;
  std::vector<SlotSpec> slots;
};
Labels labels_of(const LionParams&, MomentType type) {
  return {"lion", {slot_spec("exp_avg", type)}};
}
Labels labels_of(const AdagradParams& params, MomentType type) {
  return {"adagrad",
          {slot_spec("sum", type, StateSign::kNotNegative,
                     static_cast<float>(params.initial_accumulator_value))}};
}
Labels labels_of(const SgdParams& params, MomentType type) {
  if (params.momentum == 0) return {"sgd", {}};
  return {"sgd", {slot_spec("momentum_buffer", type)}};
}
Labels labels_of(const RmspropParams& params, MomentType type) {
  Labels labels{"rmsprop", {slot_spec("square_avg", type, StateSign::kNotNegative)}};
  if (params.momentum > 0) labels.slots.push_back(slot_spec("momentum_buffer", type));
  if (params.centered) labels.slots.push_back(slot_spec("grad_avg", type));
  return labels;
}

template <class Params>
constexpr bool kHasBetas = requires(Params params) {
  params.betas;
};

template <class Params>
class RuleOptimizer final : public GroupedOptimizer {
 public:
  RuleOptimizer(const OptimizerConfig& config, const Params& params)
      : GroupedOptimizer(config, params.lr, params.weight_decay),
        params_(params),
        labels_(labels_of(params, config.moment_dtype)) {
    static_cast<void>(rule_of(params, {}));  // which checks them
  }

  std::string_view family() const override { return labels_.family; }
  std::vector<SlotSpec> slots_of(int /*kind*/) const override { return labels_.slots; }
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

  void step(std::span<Shard> parts, const StepScalars& scalars, const UpdateGroup& group,
            Stream& stream) const override {
    for (const Shard& shard : parts) {
      for_each_range(shard, group, [&](int options, const Shard& part, const Noise& noise) {
        kernels::rule_update(stream,
                             {.master = part.master,
                              .grad = part.grad,
                              .states = states_of(part, labels_.slots, labels_.family),
                              .copy = part.copy,
                              .noise = noise},
                             rule_of(params_, options_of(options)), scalars);
      });
    }
  }

 private:
  const Params params_;
  const Labels labels_;
};

// Calls `use` with the parameters of the type: the one list of the optimizers of this build.
template <class Use>
auto with_params(const OptimizerConfig& c, const Use& use) {
  switch (c.type.value_or(OptimizerType::kAdamW)) {
    case OptimizerType::kAdam:
    case OptimizerType::kAdamW:
    case OptimizerType::kMuAdam:
    case OptimizerType::kMuAdamW:
      return use(c.adam);
    case OptimizerType::kLion:
      return use(c.lion);
    case OptimizerType::kAdagrad:
      return use(c.adagrad);
    case OptimizerType::kSgd:
    case OptimizerType::kMuSgd:
      return use(c.sgd);
    case OptimizerType::kRmsprop:
      return use(c.rmsprop);
    case OptimizerType::kLamb:
      return use(c.lamb);
    case OptimizerType::kMuon:
      return use(c.muon);
    case OptimizerType::kOneBitAdam:
      return use(c.onebit_adam);
    case OptimizerType::kZeroOneAdam:
      return use(c.zero_one_adam);
    case OptimizerType::kOneBitLamb:
      return use(c.onebit_lamb);
  }
  throw InternalError("unknown optimizer");
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  using Made = std::unique_ptr<Optimizer>;
  return with_params(config, [&]<class Params>(const Params& params) -> Made {
    if constexpr (std::is_same_v<Params, AdamParams>) {
      return make_adam(config, decays_decoupled(config) ? kernels::WeightDecay::kDecoupled
                                                        : kernels::WeightDecay::kL2);
    } else if constexpr (std::is_same_v<Params, LambParams>) {
      return make_lamb(config);
    } else if constexpr (std::is_same_v<Params, MuonParams>) {
      return make_muon(config);
    } else if constexpr (std::is_same_v<Params, OneBitAdamParams>) {
      return make_onebit_adam(config);
    } else if constexpr (std::is_same_v<Params, ZeroOneAdamParams>) {
      return make_zero_one_adam(config);
    } else if constexpr (std::is_same_v<Params, OneBitLambParams>) {
      return make_onebit_lamb(config);
    } else {
      return std::make_unique<RuleOptimizer<Params>>(config, params);
    }
  });
}

double learning_rate(const OptimizerConfig& config) {
  return with_params(config, [](const auto& params) { return params.lr; });
}

}  // namespace ds
