// Weights of 16 bits that are their own masters: updates in fp32 of what they are, rounded after
// each step. The same bits at every stage and by every number of ranks, also where they are rounded
// at random, and after they were saved and restored elsewhere.
#include <cmath>
#include <map>
#include <mutex>

#include "kernels/elementwise/elementwise.h"
#include "optim/rule_optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/step_numbers.h"
#include "tests/zero/device_rank.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using Floats = std::vector<float>;
using Values = std::map<std::string, Floats>;  // by parameter and slot; slot -1: weights

constexpr double kRate = 0.02;
constexpr int64_t kSteps = 6;

const std::vector<std::pair<std::string, Shape>>& params() {
  static const std::vector<std::pair<std::string, Shape>> kParams{{"wte.weight", {11, 8}},
                                                                  {"h.0.weight", {8, 12}},
                                                                  {"h.0.bias", {12}},
                                                                  {"h.1.weight", {16, 8}}};
  return kParams;
}

// The numbers have few bits, so that sums over 1, 2 or 4 ranks are exact.
float start(int64_t p, int64_t i) {
  return static_cast<float>(BF16(static_cast<float>(std::sin(0.7 * static_cast<double>(i + p)))));
}
float gradient(int64_t p, int64_t i, int64_t step) {
  const double angle = 0.37 * static_cast<double>(i) + 0.11 * static_cast<double>(p);
  return static_cast<float>(
      BF16(static_cast<float>(std::cos(angle + 1.7 * static_cast<double>(step)) * 0.25)));
}

struct Run {
  OptimizerConfig optimizer;
  DType dtype = DType::kBF16;
  std::optional<uint64_t> rounding_seed = std::nullopt;
  int stage = 0;
  int ranks = 1;
};

class Rank {
 public:
  Rank(const Run& run, Communicator& world)
      : optimizer_(make_optimizer(run.optimizer)),
        own_(world),
        mesh_(Mesh::over(own_.comm(), {.data = world.size()})),
        store_({.layout = {.bucket_numel = 130, .persistence_numel = 10},
                .placement = {.policy = zero_policy(run.stage)},
                .state = {.optimizer = optimizer_.get(),
                          .masters = Masters::kWeights,
                          .rounding_seed = run.rounding_seed},
                .wire = {.slice_dtype = run.dtype}},
               mesh_, {own_.stream(), own_.stream()}, own_.comm().memory()) {
    for (size_t p = 0; p < params().size(); ++p) {
      store_.add({.name = params()[p].first,
                  .shape = params()[p].second,
                  .dtype = run.dtype,
                  .unit = narrow<int>(p) / 2});
    }
    store_.seal();
    exchange(Visit::kRestore, [](ParamId p, int slot, int64_t at, float& value) {
      value = slot < 0 ? start(p, at) : value;
    });
  }

  void train(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      store_.step().begin();
      store_.begin_micro_step();
      for (ParamId id = store_.count() - 1; id >= 0; --id) contribute(id, step);
      store_.end_micro_step();
      store_.reduce_gradients();
      store_.step().update(
          *optimizer_, testing::scalars_of(own_.stream(), optimizer_->inputs({.lr = kRate}, step)));
      store_.step().publish();
    }
  }

  void save(Values& to, std::mutex& mutex) {
    const std::lock_guard lock(mutex);
    exchange(Visit::kSave, [&](ParamId p, int slot, int64_t at, float& value) {
      Floats& all = to[store_.spec(p).name + std::to_string(slot)];
      all.resize(to_size(store_.spec(p).shape.numel()));
      nth(all, at) = value;
    });
  }
  void restore(const Values& from) {
    exchange(Visit::kRestore, [&](ParamId p, int slot, int64_t at, float& value) {
      value = nth(from.at(store_.spec(p).name + std::to_string(slot)), at);
    });
  }
  // As the model sees them, with the names that save() has.
  Values published() {
    Values all;
    for (ParamId id = 0; id < store_.count(); ++id) {
      all[store_.spec(id).name + "-1"] = testing::floats_of(store_.acquire(id).weight());
    }
    return all;
  }

 private:
  void contribute(ParamId id, int64_t step) {
    GradSlot slot = store_.grad_slot(id);
    const Shape& shape = store_.spec(id).shape;
    Floats values(to_size(shape.numel()));
    for (int64_t i = 0; i < shape.numel(); ++i) {
      nth(values, i) = gradient(id, i, step) / static_cast<float>(own_.comm().size());
    }
    kernels::cast(own_.stream(), testing::upload(values, shape, own_.stream()), slot.grad);
    store_.grad_ready(id);
  }
  template <class Each>
  void exchange(Visit what, const Each& each) {
    store_.state().visit_owned(what, [&](OwnedPart& part) {
      for (int slot = -1; slot < narrow<int>(part.slots.size()); ++slot) {
        Tensor& tensor = slot < 0 ? part.master : nth(part.slots, slot);
        Floats values = testing::floats_of(tensor);
        for (const ShardField& field : part.fields) {
          for (int64_t i = 0; i < field.numel; ++i) {
            each(field.param, slot, field.param_begin + i, nth(values, field.offset + i));
          }
        }
        if (what == Visit::kSave) continue;
        own_.stream().copy(values.data(), tensor.address(), tensor.bytes());
        own_.stream().synchronize();
      }
    });
    if (what == Visit::kRestore) store_.state().restore_from_owned();
  }

  const std::unique_ptr<Optimizer> optimizer_;
  testing::DeviceRank own_;
  Mesh mesh_;
  ShardedStore store_;
};

// From `before`, or from the start where that is empty.
Values train(const Run& run, int64_t first, int64_t last, const Values& before = {}) {
  Values after;
  std::mutex mutex;
  test::run_ranks(run.ranks, [&](Communicator& world) {
    Rank rank(run, world);
    if (!before.empty()) rank.restore(before);
    rank.train(first, last);
    rank.save(after, mutex);
    const Values published = rank.published();
    world.barrier();
    const std::lock_guard lock(mutex);
    for (const auto& [name, values] : published) CHECK(values == after.at(name));
  });
  return after;
}

std::vector<Run> runs() {
  using enum OptimizerType;
  const AdamParams adam{.lr = kRate, .weight_decay = 0.1};
  const std::vector<OptimizerConfig> optimizers{
      {.adam = adam},
      {.type = kLion,
       .lion = {.lr = kRate, .weight_decay = 0.1},
       .param_groups = {{.max_dims = 1, .lr = 0.1 * kRate}}},
      {.adam = adam, .moment_dtype = MomentType::kBf16},
      {.type = kRmsprop,
       .rmsprop = {.lr = kRate, .momentum = 0.9},
       .moment_dtype = MomentType::kMxFp8}};
  std::vector<Run> all;
  for (const OptimizerConfig& optimizer : optimizers) {
    all.push_back({.optimizer = optimizer});
    all.push_back({.optimizer = optimizer, .rounding_seed = 17});
  }
  all.push_back({.optimizer = optimizers.front(), .dtype = DType::kF16});
  return all;
}

TEST_CASE("weights that are their own masters have the same bits at any stage and number of ranks",
          "[zero][device]") {
  // A device that is emulated is given few.
  const bool is_slow = testing::test_device().is_emulated;
  const int64_t steps = is_slow ? 3 : kSteps;
  std::vector<std::pair<int, int>> settings{{0, 2}, {3, 4}};
  if (!is_slow) settings.insert(settings.end(), {{1, 4}, {2, 2}, {3, 1}});
  for (Run run : runs()) {
    CAPTURE(run.optimizer.type, name_of(run.dtype), run.rounding_seed.has_value());
    const Values expected = train(run, 1, steps);
    for (const auto& [stage, ranks] : settings) {
      run.stage = stage;
      run.ranks = ranks;
      CAPTURE(stage, ranks);
      REQUIRE(train(run, 1, steps) == expected);
    }
  }
}

TEST_CASE("weights that are their own masters go on to the same bits elsewhere", "[zero][device]") {
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>{}, std::optional(uint64_t{3})}) {
    Run run{.optimizer = {.adam = {.lr = kRate}}, .rounding_seed = seed};
    const Values expected = train(run, 1, kSteps);
    Run other = run;
    other.stage = 3;
    other.ranks = 4;
    CHECK(train(run, 4, kSteps, train(other, 1, 3)) == expected);
    CHECK(train(other, 4, kSteps, train(run, 1, 3)) == expected);
  }
}

TEST_CASE("another seed rounds otherwise, and to nearest is another rounding", "[zero]") {
  const OptimizerConfig adam{.adam = {.lr = kRate}};
  const Values one = train({.optimizer = adam, .rounding_seed = 1}, 1, 1);
  CHECK(one != train({.optimizer = adam, .rounding_seed = 2}, 1, 1));
  CHECK(one != train({.optimizer = adam}, 1, 1));
}

// The formula is torch.optim.AdamW's over a bf16 parameter that is widened for the step.
TEST_CASE("AdamW over bf16 weights is the formula in fp64, rounded after each step",
          "[zero][device]") {
  const AdamParams adam{.lr = kRate, .weight_decay = 0.1};
  const Values got = train({.optimizer = {.adam = adam}, .stage = 2, .ranks = 2}, 1, kSteps);
  int64_t equal = 0, all = 0;
  for (size_t p = 0; p < params().size(); ++p) {
    const auto id = narrow<int64_t>(p);
    const Floats& weights = got.at(params()[p].first + "-1");
    for (int64_t i = 0; i < params()[p].second.numel(); ++i) {
      double w = start(id, i), m = 0, v = 0;
      for (int64_t step = 1; step <= kSteps; ++step) {
        const auto t = static_cast<double>(step);
        const double g = gradient(id, i, step);
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        w *= 1 - kRate * 0.1;
        w -= kRate * (m / (1 - std::pow(0.9, t))) /
             (std::sqrt(v / (1 - std::pow(0.999, t))) + adam.eps);
        w = static_cast<double>(static_cast<float>(BF16(static_cast<float>(w))));
      }
      equal += nth(weights, i) == static_cast<float>(w) ? 1 : 0;
      ++all;
      // If fp32 and fp64 are on two sides of a middle, a last bit is another from there on.
      CHECK(std::abs(static_cast<double>(nth(weights, i)) - w) <= std::abs(w) / 64 + 1e-4);
    }
  }
  CHECK(equal >= all - all / 50);
}

}  // namespace
}  // namespace ds
