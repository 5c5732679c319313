// Lion, Adagrad and SGD over shards.
#include "optim/rule_optimizer.h"

#include <algorithm>
#include <array>

#include "core/dispatch.h"
#include "core/thread_pool.h"
#include "core/trace.h"
#include "optim/rules.h"

namespace ds {
namespace {

constexpr int64_t kChunk = 2048;  // numbers converted at a time: weight, gradient, state in 24 KiB

// What checkpoints call a rule and its state.
struct Labels {
  std::string_view family;
  std::vector<std::string> slots;
};
Labels labels_of(const LionParams&) { return {"lion", {"exp_avg"}}; }
Labels labels_of(const AdagradParams&) { return {"adagrad", {"sum"}}; }
Labels labels_of(const SgdParams& rule) {
  check(rule);
  if (rule.momentum == 0) return {"sgd", {}};
  return {"sgd", {"momentum_buffer"}};
}

template <class Rule>
void apply(const Rule& rule, int64_t step, std::span<float> weight, std::span<const float> grad,
           std::span<float> state) {
  if constexpr (requires { update(rule, step, weight, grad, state); }) {
    update(rule, step, weight, grad, state);
  } else {
    update(rule, weight, grad, state);
  }
}

void check_shard(const Shard& shard, size_t slots) {
  const int64_t n = shard.master.numel();
  DS_CHECK(shard.master.dtype() == DType::kF32 && shard.grad.numel() == n,
           "optimizer: master is {} of {} numbers, the gradient has {}",
           name_of(shard.master.dtype()), n, shard.grad.numel());
  DS_CHECK(shard.slots.size() == slots, "optimizer: {} slots given, expected {}",
           shard.slots.size(), slots);
  for (const Tensor& slot : shard.slots) {
    DS_CHECK(slot.dtype() == DType::kF32 && slot.numel() == n,
             "optimizer: a slot is {} of {} numbers, expected fp32 of {}", name_of(slot.dtype()),
             slot.numel(), n);
  }
  DS_CHECK(!shard.copy.defined() || shard.copy.numel() == n,
           "optimizer: the copy has {} numbers, expected {}", shard.copy.numel(), n);
}

void write_copy(Tensor& copy, int64_t begin, std::span<const float> weight) {
  if (!copy.defined()) return;
  on_float(copy.dtype(), [&]<class T>() {
    std::ranges::transform(weight, copy.data<T>() + begin,
                           [](float value) { return static_cast<T>(value); });
  });
}

template <class Rule>
constexpr bool kHasBetas = requires(Rule rule) {
  rule.betas;
};

template <class Rule>
class RuleOptimizer final : public Optimizer {
 public:
  explicit RuleOptimizer(const Rule& rule) : rule_(rule), labels_(labels_of(rule)) {}

  std::string_view family() const override { return labels_.family; }
  std::vector<std::string> slot_names() const override { return labels_.slots; }
  MomentumSupport momentum_support() const override {
    return kHasBetas<Rule> ? MomentumSupport::kBetas : MomentumSupport::kNone;
  }

  void step(Shard& shard, const Hyper& hyper, int64_t step, Stream& stream) const override {
    check_shard(shard, labels_.slots.size());
    Rule rule = rule_;
    rule.lr = hyper.lr;
    if constexpr (kHasBetas<Rule>) {
      rule.betas = hyper.betas.value_or(rule.betas);
    }
    const int64_t n = shard.master.numel();
    const double state_bytes =
        8.0 * static_cast<double>(n) * static_cast<double>(labels_.slots.size());
    stream.record("rule_update",
                  {.flops = 8 * static_cast<double>(n),
                   .bytes = 8 * static_cast<double>(n) + state_bytes +
                            static_cast<double>(shard.grad.bytes()) +
                            (shard.copy.defined() ? static_cast<double>(shard.copy.bytes()) : 0)});
    on_device(stream.device(), [&](Cpu) {
      on_float(shard.grad.dtype(), [&]<class G>() {
        stream.pool().parallel_for(n, kChunk, [&](int64_t begin, int64_t end) {
          for (int64_t at = begin; at < end; at += kChunk) {
            chunk<G>(rule, shard, hyper.grad_scale, step, at, std::min(kChunk, end - at));
          }
        });
      });
    });
  }

 private:
  template <class G>
  static void chunk(const Rule& rule, Shard& shard, float grad_scale, int64_t step, int64_t begin,
                    int64_t count) {
    std::array<float, kChunk> converted;
    const size_t size = static_cast<size_t>(count);
    const std::span<float> grad(converted.data(), size);
    const G* from = shard.grad.data<G>() + begin;
    for (size_t i = 0; i < size; ++i) grad[i] = static_cast<float>(from[i]) * grad_scale;
    const std::span<float> weight(shard.master.data<float>() + begin, size);
    const std::span<float> state =
        shard.slots.empty() ? std::span<float>()
                            : std::span<float>(shard.slots[0].data<float>() + begin, size);
    apply(rule, step, weight, grad, state);
    write_copy(shard.copy, begin, weight);
  }

  const Rule rule_;
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
