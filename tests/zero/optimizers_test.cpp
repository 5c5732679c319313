// Every optimizer against torch.optim, or DeepSpeed's and mup's definitions: 50 steps over a
// sharded store, at every stage, by one to four ranks, and with a change of ranks halfway. The
// numbers are those of tests/optim/golden_weights.py, which has the same parameters, gradients and
// settings, computed in fp32 by PyTorch; every third weight is compared.
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "kernels/elementwise/elementwise.h"
#include "optim/rule_optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/ranks.h"
#include "tests/support/step_numbers.h"
#include "tests/zero/device_rank.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using test::require;
using Floats = std::vector<float>;
using Values = std::map<std::string, Floats>;  // by parameter, or by parameter and slot

constexpr int64_t kSteps = 50;
constexpr double kRate = 0.01;

const std::vector<std::pair<std::string, Shape>>& params() {
  static const std::vector<std::pair<std::string, Shape>> kParams{{"wte.weight", {6, 8}},
                                                                  {"h.0.attn.weight", {8, 12}},
                                                                  {"h.0.attn.bias", {12}},
                                                                  {"h.0.ln_1.weight", {8}},
                                                                  {"h.1.mlp.weight", {16, 8}}};
  return kParams;
}

float start(int64_t p, int64_t i) {
  return static_cast<float>(
      0.5 * std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(p)) + 0.1);
}
float gradient(int64_t p, int64_t i, int64_t step) {
  const double angle = 0.37 * static_cast<double>(i) + 0.11 * static_cast<double>(p) +
                       1.7 * static_cast<double>(step);
  return static_cast<float>(std::cos(angle) * (0.1 + 0.05 * static_cast<double>((i + step) % 7)));
}

std::vector<BaseShapeConfig> base_shapes() {
  return {{.match = {"wte.weight"}, .shape = {6, 4}},
          {.match = {"*.attn.weight"}, .shape = {4, 6}},
          {.match = {"*.bias"}, .shape = {6}},
          {.match = {"*.ln_?.weight"}, .shape = {4}},
          {.match = {"h.[12].mlp.weight"}, .shape = {4, 4}}};
}

std::map<std::string, OptimizerConfig> cases() {
  using enum OptimizerType;
  const AdamParams adam{.lr = kRate, .weight_decay = 0.1};
  std::map<std::string, OptimizerConfig> all;
  all["adamw"] = {.adam = adam};
  all["adam"] = {.type = kAdam, .adam = adam};
  all["adam"].adam.adam_w_mode = false;
  all["adam without correction"] = {.adam = {.lr = kRate, .bias_correction = false}};
  all["adamw amsgrad"] = {.adam = adam};
  all["adamw amsgrad"].adam.amsgrad = true;
  all["lion"] = {.type = kLion, .lion = {.lr = kRate, .betas = {0.9, 0.99}, .weight_decay = 0.1}};
  all["adagrad"] = {.type = kAdagrad, .adagrad = {.lr = kRate, .weight_decay = 0.1}};
  all["adagrad of torch"] = {
      .type = kAdagrad,
      .adagrad = {
          .lr = kRate, .weight_decay = 0.1, .lr_decay = 0.05, .initial_accumulator_value = 0.2}};
  all["sgd"] = {.type = kSgd, .sgd = {.lr = kRate, .weight_decay = 0.1}};
  all["sgd with momentum"] = {
      .type = kSgd, .sgd = {.lr = kRate, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1}};
  all["sgd nesterov"] = {.type = kSgd, .sgd = {.lr = kRate, .momentum = 0.9, .nesterov = true}};
  all["sgd upwards"] = {
      .type = kSgd, .sgd = {.lr = kRate, .momentum = 0.9, .weight_decay = 0.1, .maximize = true}};
  all["rmsprop"] = {.type = kRmsprop, .rmsprop = {.lr = kRate, .weight_decay = 0.1}};
  all["rmsprop with momentum"] = {.type = kRmsprop,
                                  .rmsprop = {.lr = kRate, .alpha = 0.95, .momentum = 0.9}};
  all["rmsprop centered"] = {.type = kRmsprop,
                             .rmsprop = {.lr = kRate, .eps = 1e-4, .centered = true}};
  all["rmsprop centered with momentum"] = {
      .type = kRmsprop,
      .rmsprop = {.lr = kRate, .eps = 1e-4, .momentum = 0.5, .centered = true, .maximize = true}};
  all["groups"] = {
      .adam = adam,
      .param_groups = {{.max_dims = 1, .weight_decay = 0},
                       {.match = {"nothing", "*.mlp.*"}, .lr = 0.1 * kRate, .weight_decay = 0.3}}};
  all["muadam"] = {.type = kMuAdam, .adam = adam, .base_shapes = base_shapes()};
  all["muadamw"] = {.type = kMuAdamW, .adam = adam, .base_shapes = base_shapes()};
  all["musgd"] = {.type = kMuSgd,
                  .sgd = {.lr = kRate, .momentum = 0.9, .weight_decay = 0.1},
                  .base_shapes = base_shapes()};
  all["lamb"] = {.type = kLamb, .lamb = {.lr = kRate, .weight_decay = 0.1}};
  all["lamb with eps inside"] = {.type = kLamb,
                                 .lamb = {.lr = kRate,
                                          .bias_correction = false,
                                          .eps = 1e-3,
                                          .eps_inside_sqrt = true,
                                          .weight_decay = 0.1}};
  all["lamb clamped"] = {.type = kLamb, .lamb = {.lr = kRate, .max_coeff = 0.8, .min_coeff = 0.5}};
  all["muon"] = {
      .type = kMuon,
      .muon = {
          .lr = kRate, .weight_decay = 0.1, .ns_method = NewtonSchulz::kStandard, .eps = 1e-10}};
  all["muon with rates"] = {.type = kMuon,
                            .muon = {.lr = kRate, .muon_lr = 0.02, .adam_lr = 0.003, .eps = 1e-10}};
  return all;
}

// Reads tests/golden/optimizers.txt.
std::map<std::string, Floats> golden_weights() {
  std::ifstream file(testing::source_directory() + "/tests/golden/optimizers.txt");
  std::map<std::string, Floats> all;
  std::string name, line;
  while (std::getline(file, name)) {
    std::getline(file, line);
    require(line == "----", "{}: expected a line of dashes", name);
    while (std::getline(file, line) && !line.empty()) {
      std::istringstream numbers(line);
      for (float value = 0; numbers >> value;) all[name].push_back(value);
    }
  }
  return all;
}

struct Run {
  OptimizerConfig config;
  int stage = 0;
  int ranks = 1;
};

// One rank of a run: weights and state can be taken out of it and put into another.
class Rank {
 public:
  Rank(const Run& run, Communicator& world)
      : optimizer_(make_optimizer(run.config)),
        own_(world),
        mesh_(Mesh::over(own_.comm(), {.data = world.size()})),
        store_({.layout = {.bucket_numel = 130, .persistence_numel = 10},
                .placement = {.policy = zero_policy(run.stage)},
                .state = {.optimizer = optimizer_.get()}},
               mesh_, {own_.stream(), own_.stream()}, own_.comm().memory()) {
    for (size_t p = 0; p < params().size(); ++p) {
      store_.add(
          {.name = params()[p].first, .shape = params()[p].second, .unit = narrow<int>(p) / 2});
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

  Floats weights() {
    Floats all;
    for (ParamId id = 0; id < store_.count(); ++id) {
      const Floats one = testing::floats_of(store_.acquire(id).weight());
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  int64_t updated_bytes() const {
    int64_t bytes = 0;
    for (const auto& group : store_.groups()) {
      for (const Shard& shard : group->shards()) {
        for (const Tensor& slot : shard.slots) bytes += narrow<int64_t>(slot.bytes());
      }
    }
    return bytes;
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

  // `each` sees, and may change, every weight that this rank answers for, as slot -1, and its
  // state.
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
        own_.stream().copy(values.data(), tensor.address(), narrow<int64_t>(tensor.bytes()));
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

// Trains steps [first, last] from `state`, or from the start where that is empty.
Floats train(const Run& run, int64_t first, int64_t last, Values& state) {
  Floats weights;
  std::mutex mutex;
  Values before;
  before.swap(state);
  test::run_ranks(run.ranks, [&](Communicator& world) {
    Rank rank(run, world);
    if (!before.empty()) rank.restore(before);
    rank.train(first, last);
    rank.save(state, mutex);
    Floats mine = rank.weights();
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) weights = std::move(mine);
  });
  return weights;
}

double largest_difference(const Floats& weights, const Floats& golden) {
  double largest = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const double wanted = golden[i];
    const double off = std::abs(static_cast<double>(weights.at(3 * i)) - wanted);
    largest = std::max(largest, off / std::max(1.0, std::abs(wanted)));
  }
  return largest;
}

TEST_CASE("optimizers make the weights of torch.optim and DeepSpeed at every stage",
          "[zero][device]") {
  const auto golden = golden_weights();
  for (const auto& [name, config] : cases()) {
    for (const auto& [stage, ranks] :
         std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 2}, {2, 3}, {3, 4}, {3, 1}}) {
      Values state;
      const Floats weights =
          train({.config = config, .stage = stage, .ranks = ranks}, 1, kSteps, state);
      INFO(name << ", stage " << stage << ", " << ranks << " ranks");
      REQUIRE(weights.size() == 292);
      CHECK(largest_difference(weights, golden.at(name)) < 1e-6);
    }
  }
}

TEST_CASE("optimizers go on with another number of ranks", "[zero][device]") {
  const auto golden = golden_weights();
  for (const auto& [name, config] : cases()) {
    Values state;
    train({.config = config, .stage = 1, .ranks = 3}, 1, 20, state);
    train({.config = config, .stage = 3, .ranks = 4}, 21, 30, state);
    train({.config = config, .stage = 0, .ranks = 2}, 31, 40, state);
    const Floats weights = train({.config = config, .stage = 2, .ranks = 1}, 41, kSteps, state);
    INFO(name);
    CHECK(largest_difference(weights, golden.at(name)) < 1e-6);
  }
}

// State in fewer bits goes the same way but for its rounding, whose noise does not depend on who
// has which weights: resumed elsewhere it has the same bits.
TEST_CASE("state in fewer bits stays near that in fp32, and has the same bits at any cut",
          "[zero][device]") {
  const auto golden = golden_weights();
  for (const auto& [type, most] :
       std::map<MomentType, double>{{MomentType::kBf16, 0.03}, {MomentType::kMxFp8, 0.1}}) {
    for (const char* name : {"adamw", "adamw amsgrad", "lion", "sgd with momentum",
                             "rmsprop centered with momentum", "adagrad of torch"}) {
      OptimizerConfig config = cases().at(name);
      config.moment_dtype = type;
      Values state;
      const Floats whole = train({.config = config, .stage = 0, .ranks = 1}, 1, kSteps, state);
      INFO(name << " with moments of type " << static_cast<int>(type));
      CHECK(largest_difference(whole, golden.at(name)) < most);
      CHECK(largest_difference(whole, golden.at(name)) > 0);
      Values other;
      train({.config = config, .stage = 1, .ranks = 2}, 1, 25, other);
      CHECK(train({.config = config, .stage = 3, .ranks = 4}, 26, kSteps, other) == whole);
      CHECK(other == state);
    }
  }
}

TEST_CASE("a group that no parameter fits, and a parameter without a base shape, are refused",
          "[zero]") {
  const auto place = [](const OptimizerConfig& config) {
    std::vector<ParamFacts> facts;
    for (const auto& [name, shape] : params()) facts.push_back({.name = name, .shape = shape});
    return make_optimizer(config)->place(facts);
  };
  CHECK_THROWS_WITH(place({.param_groups = {{.match = {"*.gamma"}}}}),
                    Catch::Contains("param_groups[0]: no parameter") && Catch::Contains("*.gamma"));
  CHECK_THROWS_WITH(place({.param_groups = {{.match = {"*"}}, {.match = {"*.bias"}}}}),
                    Catch::Contains("param_groups[1]"));
  CHECK_THROWS_WITH(place({.adam = {.lr = 0}, .param_groups = {{.lr = 0.1}}}),
                    Catch::Contains("param_groups[0].lr: 0.1, but optimizer.params.lr is 0"));
  CHECK_THROWS_WITH(place({.type = OptimizerType::kMuAdam,
                           .base_shapes = {{.match = {"*.attn.*"}, .shape = {8, 12}}}}),
                    Catch::Contains("none fits wte.weight, whose shape is [6, 8]"));
  CHECK_THROWS_WITH(place({.type = OptimizerType::kMuSgd, .base_shapes = {{.shape = {8}}}}),
                    Catch::Contains("that of wte.weight is [8], its own is [6, 8]"));
}

}  // namespace
}  // namespace ds
