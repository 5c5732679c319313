// The 1-bit optimizers over a sharded store, against plain loops over ranks: whole runs through
// their stages, on every number of ranks alike to the bit, and resumed.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "comm/traced_comm.h"
#include "kernels/elementwise/elementwise.h"
#include "optim/rule_optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/step_numbers.h"
#include "tests/zero/device_rank.h"
#include "tests/zero/onebit_reference.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using test::require;
using testing::OneBitRun;
using Floats = std::vector<float>;

OneBitAdamParams adam(int64_t freeze_step) {
  OneBitAdamParams params;
  params.lr = 0.01;
  params.betas = {0.9, 0.95};
  params.weight_decay = 0.1;
  params.freeze_step = freeze_step;
  return params;
}
ZeroOneAdamParams zero_one() {
  ZeroOneAdamParams params;
  params.lr = 0.01;
  params.betas = {0.9, 0.95};
  params.weight_decay = 0.1;
  params.var_freeze_step = 14;
  params.var_update_scaler = 3;
  params.local_step_scaler = 5;
  params.local_step_clipper = 4;
  return params;
}
OneBitLambParams lamb(int64_t freeze_step) {
  OneBitLambParams params;
  params.lr = 0.01;
  params.betas = {0.9, 0.95};
  params.weight_decay = 0.1;
  params.freeze_step = freeze_step;
  params.coeff_beta = 0.8;
  return params;
}

std::vector<std::pair<std::string, OptimizerConfig>> cases() {
  using enum OptimizerType;
  OneBitLambParams eager = lamb(6);
  eager.factor_max = 1.2;
  eager.factor_min = 0.9;
  eager.factor_threshold = 0.02;
  eager.max_coeff = 0.8;
  eager.min_coeff = 0.5;
  eager.weight_decay = 0;
  return {{"adam", {.type = kOneBitAdam, .onebit_adam = adam(6)}},
          {"adam, parts of it whole",
           {.type = kOneBitAdam,
            .onebit_adam = adam(6),
            .param_groups = {{.match = {"p1"}, .non_freeze = true},
                             {.match = {"p4"}, .non_freeze = true}}}},
          {"adam, shortest warm-up", {.type = kOneBitAdam, .onebit_adam = adam(0)}},
          {"0/1 adam", {.type = kZeroOneAdam, .zero_one_adam = zero_one()}},
          {"lamb", {.type = kOneBitLamb, .onebit_lamb = lamb(6)}},
          {"lamb, clamped", {.type = kOneBitLamb, .onebit_lamb = eager}}};
}

// One rank: gradients are its own, of the mean over all ranks its share.
class Rank {
 public:
  Rank(const OptimizerConfig& config, Communicator& world)
      : optimizer_(make_optimizer(config)),
        own_(world),
        mesh_(Mesh::over(own_.comm(), {.data = world.size()})),
        store_({.layout = {.bucket_numel = 130},
                .placement = {.policy = zero_policy(0)},
                .state = {.optimizer = optimizer_.get()},
                .wire = {.reduce = Reduce::kIfAsked}},
               mesh_, {own_.stream(), own_.stream()}, own_.comm().memory()) {
    const std::vector<int64_t>& sizes = testing::onebit_sizes();
    for (size_t p = 0; p < sizes.size(); ++p) {
      store_.add({.name = fmt::format("p{}", p), .shape = {sizes[p]}, .unit = narrow<int>(p) / 2});
    }
    store_.seal();
    store_.state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
      Floats values = testing::floats_of(part.master);
      for (const ShardField& field : part.fields) {
        for (int64_t i = 0; i < field.numel; ++i) {
          nth(values, field.offset + i) = testing::onebit_start(field.param, field.param_begin + i);
        }
      }
      own_.stream().copy(values.data(), part.master.address(), part.master.bytes());
      own_.stream().synchronize();
    });
    store_.state().restore_from_owned();
  }

  void step(int64_t number, uint32_t skip = 0) {
    const GradientsOf gradients = optimizer_->gradients_at(number);
    store_.step().begin(gradients);
    store_.begin_micro_step();
    for (ParamId id = store_.count() - 1; id >= 0; --id) contribute(id, number);
    store_.end_micro_step();
    store_.reduce_gradients();
    const float scale =
        gradients == GradientsOf::kOwnRank ? static_cast<float>(own_.comm().size()) : 1.0F;
    store_.step().update(
        *optimizer_,
        testing::scalars_of(own_.stream(),
                            optimizer_->inputs({.lr = testing::onebit_rate(number)}, number),
                            {.grad_scale = scale, .skip = skip}),
        {.update = number, .rate = testing::onebit_rate});
    store_.step().publish();
  }

  std::vector<Floats> weights() {
    std::vector<Floats> all;
    for (ParamId id = 0; id < store_.count(); ++id) {
      all.push_back(testing::floats_of(store_.acquire(id).weight()));
    }
    return all;
  }
  Floats everything() {
    Floats all;
    for (const auto& group : store_.groups()) {
      for (const Shard& shard : group->shards()) {
        append(all, shard.master);
        for (const Tensor& slot : shard.slots) append(all, slot);
      }
    }
    store_.state().visit_auxiliary(Visit::kRestore,
                                   [&](AuxiliaryPart& part) { append(all, part.values); });
    return all;
  }

 private:
  static void append(Floats& all, const Tensor& tensor) {
    const Floats values = testing::floats_of(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  void contribute(ParamId id, int64_t step) {
    GradSlot slot = store_.grad_slot(id);
    const Shape& shape = store_.spec(id).shape;
    Floats values(to_size(shape.numel()));
    for (int64_t i = 0; i < shape.numel(); ++i) {
      nth(values, i) = testing::onebit_gradient(own_.comm().rank(), id, i, step) /
                       static_cast<float>(own_.comm().size());
    }
    kernels::cast(own_.stream(), testing::upload(values, shape, own_.stream()), slot.grad);
    store_.grad_ready(id);
  }

  const std::unique_ptr<Optimizer> optimizer_;
  testing::DeviceRank own_;
  Mesh mesh_;
  ShardedStore store_;
};

void check_weights(const std::vector<Floats>& got, const std::vector<Floats>& wanted, int64_t step,
                   int rank) {
  for (size_t p = 0; p < wanted.size(); ++p) {
    for (size_t i = 0; i < wanted[p].size(); ++i) {
      require(std::abs(got[p][i] - wanted[p][i]) <= 1e-6F * std::max(1.0F, std::abs(wanted[p][i])),
              "step {}, rank {}: weight {} of {} is {}, expected {}", step, rank, i, p, got[p][i],
              wanted[p][i]);
    }
  }
}

TEST_CASE("1-bit optimizers are what plain loops over ranks make of them", "[zero][device]") {
  constexpr int64_t kSteps = 40;
  for (const auto& [name, config] : cases()) {
    for (const int ranks : {1, 2, 4}) {
      CAPTURE(name, ranks);
      OneBitRun reference(config, ranks);
      std::vector<std::vector<std::vector<Floats>>> wanted;  // by step and rank
      for (int64_t step = 1; step <= kSteps; ++step) {
        reference.step(step);
        wanted.push_back(reference.weights());
      }
      test::run_ranks(ranks, [&](Communicator& world) {
        Rank rank(config, world);
        for (int64_t step = 1; step <= kSteps; ++step) {
          rank.step(step);
          check_weights(rank.weights(), wanted[to_size(step - 1)][to_size(world.rank())], step,
                        world.rank());
        }
      });
    }
  }
}

TEST_CASE("ranks that exchange one bit per number have the same weights to the bit",
          "[zero][device]") {
  for (const auto& [name, config] : cases()) {
    CAPTURE(name);
    // The last step of 0/1 Adam's intervals of four.
    constexpr int64_t kLast = 40;
    std::mutex mutex;
    std::vector<std::vector<Floats>> all;
    test::run_ranks(3, [&](Communicator& world) {
      Rank rank(config, world);
      for (int64_t step = 1; step <= kLast; ++step) rank.step(step);
      std::vector<Floats> mine = rank.weights();
      const std::lock_guard lock(mutex);
      all.push_back(std::move(mine));
    });
    CHECK(all[1] == all[0]);
    CHECK(all[2] == all[0]);
  }
}

TEST_CASE("a step that is skipped moves neither weights nor errors", "[zero][device]") {
  for (const auto& [name, config] : cases()) {
    CAPTURE(name);
    test::run_ranks(2, [&](Communicator& world) {
      Rank rank(config, world);
      for (int64_t step = 1; step <= 30; ++step) {
        const Floats before = rank.everything();
        rank.step(step, 1);
        require(rank.everything() == before, "step {} moved something", step);
        rank.step(step);
        require(step == 1 || rank.everything() != before, "step {} moved nothing", step);
      }
    });
  }
}

}  // namespace
}  // namespace ds
