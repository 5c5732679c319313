// Lion, Adagrad and SGD over shards.
#include "optim/rule_optimizer.h"

#include <algorithm>
#include <array>

#include "core/dispatch.h"
#include "core/thread_pool.h"
#include "core/trace.h"

namespace ds {
namespace {

constexpr int64_t kChunk = 2048;  // numbers converted at a time: weight, gradient, state in 24 KiB

void apply(const LionRule& rule, int64_t, std::span<float> weight, std::span<const float> grad,
           std::span<float> state) {
  update(rule, weight, grad, state);
}
void apply(const AdagradRule& rule, int64_t, std::span<float> weight, std::span<const float> grad,
           std::span<float> state) {
  update(rule, weight, grad, state);
}
void apply(const SgdRule& rule, int64_t step, std::span<float> weight, std::span<const float> grad,
           std::span<float> state) {
  update(rule, step, weight, grad, state);
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
  rule.beta1, rule.beta2;
};

template <class Rule>
class RuleOptimizer final : public Optimizer {
 public:
  RuleOptimizer(const Rule& rule, std::string_view family, std::vector<std::string> slots)
      : rule_(rule), family_(family), slots_(std::move(slots)) {}

  std::string_view family() const override { return family_; }
  std::vector<std::string> slot_names() const override { return slots_; }
  MomentumSupport momentum_support() const override {
    return kHasBetas<Rule> ? MomentumSupport::kBetas : MomentumSupport::kNone;
  }

  void step(Shard& shard, const Hyper& hyper, int64_t step, Stream& stream) const override {
    check_shard(shard, slots_.size());
    Rule rule = rule_;
    rule.lr = hyper.lr;
    if constexpr (kHasBetas<Rule>) {
      if (hyper.betas) {
        rule.beta1 = hyper.betas->at(0);
        rule.beta2 = hyper.betas->at(1);
      }
    }
    const int64_t n = shard.master.numel();
    const double state_bytes = 8.0 * static_cast<double>(n) * static_cast<double>(slots_.size());
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
  const std::string_view family_;
  const std::vector<std::string> slots_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(const LionRule& rule) {
  return std::make_unique<RuleOptimizer<LionRule>>(rule, "lion",
                                                   std::vector<std::string>{"exp_avg"});
}

std::unique_ptr<Optimizer> make_adagrad(const AdagradRule& rule) {
  return std::make_unique<RuleOptimizer<AdagradRule>>(rule, "adagrad",
                                                      std::vector<std::string>{"sum"});
}

std::unique_ptr<Optimizer> make_sgd(const SgdRule& rule) {
  rule.check();
  std::vector<std::string> slots;
  if (rule.momentum != 0) slots.emplace_back("momentum_buffer");
  return std::make_unique<RuleOptimizer<SgdRule>>(rule, "sgd", std::move(slots));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerRule& rule) {
  struct Maker {
    std::unique_ptr<Optimizer> operator()(const AdamOptions& adam) const { return make_adam(adam); }
    std::unique_ptr<Optimizer> operator()(const LionRule& lion) const { return make_lion(lion); }
    std::unique_ptr<Optimizer> operator()(const AdagradRule& adagrad) const {
      return make_adagrad(adagrad);
    }
    std::unique_ptr<Optimizer> operator()(const SgdRule& sgd) const { return make_sgd(sgd); }
  };
  return std::visit(Maker{}, rule);
}

}  // namespace ds
