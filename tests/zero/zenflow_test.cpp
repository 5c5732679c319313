// Stores whose important columns are updated at once and the rest now and then: the weights of the
// definition, whatever the stage, the number of ranks and the time at which somebody resumes.
#include <cmath>
#include <map>
#include <mutex>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "optim/rule_optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/step_numbers.h"
#include "tests/zero/device_rank.h"
#include "tests/zero/zenflow_reference.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using testing::ReferenceAdam;
using testing::ZenflowReference;
using Floats = std::vector<float>;
using Values = std::map<std::string, Floats>;  // by parameter and slot, or other state

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes{{6, 8}, {8, 12}, {12}, {8}, {16, 20}};
  return kShapes;
}

double start(int64_t p, int64_t i) {
  const double x = 0.5 * std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(p));
  return std::round(x * 256) / 256;
}
// Multiples of 1/1024, whose sums over ranks are exact; which columns have the largest ones goes on
// from step to step.
double gradient(int64_t p, int64_t i, int64_t step) {
  const Shape& shape = nth(shapes(), p);
  const int64_t column = i % shape[shape.rank() - 1];
  const double size = 0.05 + 0.4 * static_cast<double>((column * 5 + step / 3 * 3 + p) % 11) / 11;
  const double angle = 0.37 * static_cast<double>(i) + 1.7 * static_cast<double>(step);
  return std::round(std::cos(angle) * size * 1024) / 1024;
}

struct Run {
  ZenflowOptions zenflow;
  int stage = 1;
  int ranks = 1;
};

OptimizerConfig adam_of(const ReferenceAdam& adam) {
  return {.adam = {.lr = adam.lr, .weight_decay = adam.weight_decay}};
}
constexpr ReferenceAdam kAdam{.lr = 0.01, .weight_decay = 0.1};

class Rank {
 public:
  Rank(const Run& run, Communicator& world)
      : optimizer_(make_optimizer(adam_of(kAdam))),
        own_(world),
        mesh_(Mesh::over(own_.comm(), {.data = world.size()})),
        store_(options_of(run), mesh_, {own_.stream(), own_.stream()}, own_.comm().memory(),
               {.state = {.host = &host_, .updater = &updater_}}) {
    for (size_t p = 0; p < shapes().size(); ++p) {
      store_.add({.name = fmt::format("{}", p), .shape = shapes()[p], .unit = narrow<int>(p) / 2});
    }
    store_.seal();
    store_.state().initialize(1);
    exchange(Visit::kRestore, [&](ParamId p, int slot, int64_t at, float& value) {
      // Masters, and last of all what is seen for now.
      const bool is_weight = slot < 0 || (run.zenflow.overlaps && slot == 3);
      value = is_weight ? static_cast<float>(start(p, at)) : value;
    });
    store_.state().restore_from_owned();
  }

  void train(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) make_step(step, {});
  }
  void make_step(int64_t step, const testing::Verdict& verdict) {
    store_.step().begin();
    store_.begin_micro_step();
    for (ParamId id = store_.count() - 1; id >= 0; --id) contribute(id, step);
    store_.end_micro_step();
    store_.reduce_gradients();
    store_.step().update(
        *optimizer_,
        testing::scalars_of(own_.stream(), optimizer_->inputs({.lr = kAdam.lr}, step), verdict));
    store_.step().publish();
  }

  void save(Values& to, std::mutex& mutex) {
    const std::lock_guard lock(mutex);
    exchange(Visit::kSave, [&](ParamId p, int slot, int64_t at, float& value) {
      Floats& all = to[fmt::format("{}/{}", p, slot)];
      all.resize(to_size(store_.spec(p).shape.numel()));
      nth(all, at) = value;
    });
    store_.state().visit_auxiliary(Visit::kSave, [&](AuxiliaryPart& part) {
      to[fmt::format("{}/{}", part.spec.param, part.spec.name)] = testing::floats_of(part.values);
    });
  }
  void restore(const Values& from) {
    exchange(Visit::kRestore, [&](ParamId p, int slot, int64_t at, float& value) {
      value = nth(from.at(fmt::format("{}/{}", p, slot)), at);
    });
    store_.state().visit_auxiliary(Visit::kRestore, [&](AuxiliaryPart& part) {
      const Floats& saved = from.at(fmt::format("{}/{}", part.spec.param, part.spec.name));
      own_.stream().copy(saved.data(), part.values.address(), part.values.bytes());
      own_.stream().synchronize();
    });
    store_.state().restore_from_owned();
  }

  // Those that are computed with.
  Floats weights() {
    Floats all;
    for (ParamId id = 0; id < store_.count(); ++id) {
      const Floats one = testing::floats_of(store_.acquire(id).weight());
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

 private:
  ZeroOptions options_of(const Run& run) const {
    ZeroPolicy policy = zero_policy(run.stage);
    policy.state.tier = policy.grads.tier = Tier::kHost;
    return {.layout = {.bucket_numel = 130, .persistence_numel = 10},
            .placement = {.policy = policy},
            .state = {.optimizer = optimizer_.get(), .zenflow = run.zenflow}};
  }
  void contribute(ParamId id, int64_t step) {
    GradSlot slot = store_.grad_slot(id);
    const Shape& shape = store_.spec(id).shape;
    const int ranks = own_.comm().size(), rank = own_.comm().rank();
    Floats values(to_size(shape.numel()));
    for (int64_t i = 0; i < shape.numel(); ++i) {
      // Not the same of all ranks, and of all together what it is of one.
      const double shift = ranks == 1 ? 0 : (rank == 0 ? 1 : (rank == ranks - 1 ? -1 : 0));
      const double share = rank == 0 ? gradient(id, i, step) : 0;
      nth(values, i) = static_cast<float>(share + shift);
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
        part.stream.copy(values.data(), tensor.address(), tensor.bytes());
        part.stream.synchronize();
      }
    });
  }

  HostMemory heap_;
  ThreadPool pool_{1}, updater_pool_{1};
  Stream host_{{.device = Device::cpu(), .memory = &heap_, .pool = &pool_}};
  Stream updater_{{.device = Device::cpu(), .memory = &heap_, .pool = &updater_pool_}};
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
    Floats mine = rank.weights();
    rank.save(state, mutex);
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) weights = std::move(mine);
  });
  return weights;
}

double largest_difference(const Floats& got, const Floats& wanted) {
  REQUIRE(got.size() == wanted.size());
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(got[i] - wanted[i])));
  }
  return largest;
}

Floats of_reference(const ZenflowReference& reference, bool seen) {
  Floats all;
  for (const ZenflowReference::Param& param : reference.params()) {
    for (const double value : seen ? param.seen : param.weight) {
      all.push_back(static_cast<float>(value));
    }
  }
  return all;
}

std::vector<ZenflowOptions> ways() {
  std::vector<ZenflowOptions> all;
  for (const bool overlaps : {false, true}) {
    all.push_back({.topk_ratio = 0.25, .update_every = 3, .overlaps = overlaps});
    all.push_back({.topk_ratio = 0.25,
                   .select_every = 5,
                   .update_every = 3,
                   .warm_up = 2,
                   .overlaps = overlaps,
                   .offloads_moments = true});
    all.push_back({.topk_ratio = 0.3, .select_every = 7, .overlaps = overlaps});
    all.push_back({.topk_ratio = 0.1, .auto_ratio = 0.4, .warm_up = 1, .overlaps = overlaps});
  }
  return all;
}

std::string words_of(const Run& run) {
  const ZenflowOptions& z = run.zenflow;
  return fmt::format(
      "{} of the columns, chosen every {}, the rest every {}, {} updates of everything, {}{}, "
      "stage "
      "{}, {} ranks",
      z.topk_ratio, z.select_every, z.update_every.value_or(0), z.warm_up,
      z.overlaps ? "late" : "at once", z.offloads_moments ? ", moments on the host" : "", run.stage,
      run.ranks);
}

constexpr int64_t kSteps = 17;

TEST_CASE("ZenFlow makes the weights of its definition, at every stage and number of ranks",
          "[zero][device]") {
  for (const ZenflowOptions& zenflow : ways()) {
    ZenflowReference reference(zenflow, kAdam, shapes(), start);
    std::map<int64_t, Floats> seen, masters;
    for (int64_t step = 1; step <= kSteps; ++step) {
      reference.update([&](int64_t p, int64_t i) { return gradient(p, i, step); });
      seen[step] = of_reference(reference, true);
      masters[step] = of_reference(reference, false);
    }
    CHECK(reference.intervals() > 1);
    CHECK(reference.intervals() < kSteps - zenflow.warm_up);
    for (const auto& [stage, ranks] : std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {3, 4}}) {
      const Run run{.zenflow = zenflow, .stage = stage, .ranks = ranks};
      INFO(words_of(run));
      for (int64_t last = kSteps - 5; last <= kSteps; ++last) {
        Values state;
        const Floats weights = train(run, 1, last, state);
        CHECK(largest_difference(weights, seen[last]) < 2e-6);
        Floats master;
        for (size_t p = 0; p < shapes().size(); ++p) {
          const Floats& one = state.at(fmt::format("{}/-1", p));
          master.insert(master.end(), one.begin(), one.end());
        }
        CHECK(largest_difference(master, masters[last]) < 2e-6);
      }
    }
  }
}

// What stays different is the definition's: late and at once are not the same.
TEST_CASE("what is late is seen one interval later", "[zero]") {
  const ZenflowOptions at_once{.topk_ratio = 0.25, .update_every = 4};
  ZenflowOptions late = at_once;
  late.overlaps = true;
  Values a, b;
  // Until the first interval ends nothing is under way.
  CHECK(train({.zenflow = at_once}, 1, 3, a) == train({.zenflow = late}, 1, 3, b));
  a.clear();
  b.clear();
  CHECK(train({.zenflow = at_once}, 1, 4, a) != train({.zenflow = late}, 1, 4, b));
  for (const char* part : {"0/-1", "4/-1", "4/0", "4/1", "4/2"}) CHECK(a.at(part) == b.at(part));
}

TEST_CASE("ZenFlow resumes at any step, by any number of ranks, to the same bits",
          "[zero][device]") {
  for (const ZenflowOptions& zenflow : ways()) {
    Values whole;
    const Floats weights = train({.zenflow = zenflow, .stage = 1, .ranks = 1}, 1, kSteps, whole);
    for (int64_t step = 1; step < kSteps; step += step % 3 + 1) {
      Values state;
      train({.zenflow = zenflow, .stage = 2, .ranks = 2}, 1, step, state);
      const Run other{.zenflow = zenflow, .stage = 3, .ranks = step % 2 == 0 ? 1 : 4};
      INFO(words_of(other) << ", resumed at " << step);
      CHECK(train(other, step + 1, kSteps, state) == weights);
      CHECK(state == whole);
    }
  }
}

TEST_CASE("a step that is skipped leaves all that ZenFlow has as it was", "[zero][device]") {
  for (const ZenflowOptions& zenflow : ways()) {
    const Run run{.zenflow = zenflow, .stage = 2, .ranks = 2};
    INFO(words_of(run));
    Values plain, skipped;
    const Floats weights = train(run, 1, 8, plain);
    Floats others;
    std::mutex mutex;
    test::run_ranks(run.ranks, [&](Communicator& world) {
      Rank rank(run, world);
      for (int64_t step = 1; step <= 8; ++step) {
        // The skipped step has other gradients.
        rank.make_step(step + 50, {.skip = static_cast<uint32_t>(Skip::kOverflow)});
        rank.make_step(step, {});
      }
      Floats mine = rank.weights();
      rank.save(skipped, mutex);
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) others = std::move(mine);
    });
    CHECK(others == weights);
    CHECK(skipped == plain);
  }
}

TEST_CASE("gradients that have to be unscaled and clipped are so in what waits, too",
          "[zero][device]") {
  for (const ZenflowOptions& zenflow : ways()) {
    const Run run{.zenflow = zenflow};
    ZenflowReference reference(zenflow, kAdam, shapes(), start);
    Floats weights;
    const auto scale_of = [](int64_t step) { return step % 2 == 0 ? 0.5F : 0.0625F; };
    test::run_ranks(1, [&](Communicator& world) {
      Rank rank(run, world);
      for (int64_t step = 1; step <= 9; ++step) {
        rank.make_step(step, {.grad_scale = scale_of(step)});
      }
      weights = rank.weights();
    });
    for (int64_t step = 1; step <= 9; ++step) {
      reference.update([&](int64_t p, int64_t i) { return gradient(p, i, step) * scale_of(step); });
    }
    INFO(words_of(run));
    CHECK(largest_difference(weights, of_reference(reference, true)) < 2e-6);
  }
}

}  // namespace
}  // namespace ds
