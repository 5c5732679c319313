// Groups of parameters: dtypes side by side, experts, ranks that share out among neighbours, and
// pieces that several ranks have. Each group has the bits of a store that knows nothing else, and
// every element is saved once and counted once.
#include <cmath>
#include <map>
#include <mutex>

#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/step_numbers.h"
#include "tests/zero/device_rank.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

using test::require;
using Values = std::map<std::string, std::vector<float>>;

ParamSpec spec_of(const std::string& name, const Shape& shape, int unit = 0) {
  return {.name = name,
          .shape = shape,
          .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F},
          .unit = unit};
}

// What one rank trains: its parameters, the store's place in the world, and which numbers its
// gradients are made of.
struct Job {
  MeshSizes sizes;
  int stage = 0;
  Axis shard_over = Axis::kData;
  std::function<std::vector<ParamSpec>(const Mesh&)> params;
  std::function<int(const Mesh&)> sample;
};

struct Outcome {
  Values weights;                                    // by parameter, of the first rank that has it
  double squares = 0;                                // over all ranks
  std::map<std::string, std::vector<int>> saved;     // how often each element is
  std::map<std::string, std::vector<int>> restored;  // the same
};

class Rank {
 public:
  Rank(const Job& job, Communicator& world)
      : job_(job),
        own_(world),
        mesh_(Mesh::over(own_.comm(), job.sizes)),
        store_({.layout = {.bucket_numel = 150, .persistence_numel = 10},
                .placement = {.policy = policy_of(job)},
                .state = {.slots = {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}}},
               mesh_, {own_.stream(), own_.stream()}, own_.comm().memory()) {
    for (const ParamSpec& spec : job.params(mesh_)) store_.add(spec);
    store_.seal();
    store_.state().initialize(99);
  }

  void train(int steps) {
    const auto adam = make_adam({.weight_decay = 0.1});
    for (int step = 1; step <= steps; ++step) {
      store_.step().begin();
      store_.begin_micro_step();
      for (ParamId id = store_.count() - 1; id >= 0; --id) {
        if (store_.spec(id).trains) contribute(id, step);
      }
      store_.end_micro_step();
      store_.reduce_gradients();
      const StepScalars scalars =
          testing::scalars_of(own_.stream(), adam->inputs({.lr = 0.01}, step), {});
      store_.step().add_sum_of_squares(scalars.squares());
      squares_ += *testing::host_copy(scalars.squares()).data<double>();
      store_.step().update(*adam, scalars);
      store_.step().publish();
    }
  }

  void collect(Outcome& out) {
    out.squares += squares_;
    for (ParamId id = 0; id < store_.count(); ++id) {
      const Lease lease = store_.acquire(id);
      out.weights.try_emplace(store_.spec(id).name, testing::floats_of(lease.weight()));
    }
    count(Visit::kSave, out.saved);
    count(Visit::kRestore, out.restored);
  }

  ShardedStore& store() { return store_; }

 private:
  static ZeroPolicy policy_of(const Job& job) {
    ZeroPolicy policy = zero_policy(job.stage);
    policy.shard_over = job.shard_over;
    return policy;
  }

  // A function of the weight, the sample and the name, so that a wrong one of them shows.
  void contribute(ParamId id, int step) {
    const Lease lease = store_.acquire(id);
    GradSlot slot = store_.grad_slot(id);
    std::vector<float> values = testing::floats_of(lease.weight());
    const auto seed = static_cast<float>(store_.spec(id).name.back());
    const auto sample = static_cast<float>(10 * step + job_.sample(mesh_));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(values[i] * 3.0F + sample + seed + static_cast<float>(i) * 0.37F);
    }
    const Tensor grad = testing::upload(values, lease.weight().shape(), own_.stream());
    require(slot.write == kernels::Write::kOverwrite, "the first contribution accumulates");
    kernels::cast(own_.stream(), grad, slot.grad);
    store_.grad_ready(id);
  }

  void count(Visit what, std::map<std::string, std::vector<int>>& counts) {
    const auto announced = store_.state().owned_fields(what);
    size_t next = 0;
    store_.state().visit_owned(what, [&](OwnedPart& part) {
      require(announced.at(next++) == part.fields, "other fields than announced");
      for (const ShardField& field : part.fields) {
        const ParamSpec& spec = store_.spec(field.param);
        auto& of = counts[spec.name];
        of.resize(to_size(spec.shape.numel()));
        for (int64_t i = 0; i < field.numel; ++i) ++nth(of, field.param_begin + i);
      }
    });
    require(next == announced.size(), "{} parts of {}", next, announced.size());
  }

  const Job& job_;
  testing::DeviceRank own_;
  Mesh mesh_;
  ShardedStore store_;
  double squares_ = 0;
};

Outcome run(const Job& job, int ranks, int steps = 3) {
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(ranks, [&](Communicator& world) {
    Rank rank(job, world);
    rank.train(steps);
    world.barrier();
    // Weights are gathered by all ranks together, so one after the other would wait for ever.
    Outcome own;
    rank.collect(own);
    const std::lock_guard lock(mutex);
    outcome.squares += own.squares;
    outcome.weights.merge(own.weights);
    const auto add = [](auto& into, const auto& from) {
      for (const auto& [name, counts] : from) {
        auto& all = into[name];
        all.resize(counts.size());
        for (size_t i = 0; i < counts.size(); ++i) all[i] += counts[i];
      }
    };
    add(outcome.saved, own.saved);
    add(outcome.restored, own.restored);
  });
  return outcome;
}

void check_counts(const std::map<std::string, std::vector<int>>& counts, int times) {
  for (const auto& [name, of] : counts) {
    CAPTURE(name);
    CHECK(std::ranges::all_of(of, [&](int count) { return count == times; }));
  }
}

void check_close(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    const std::vector<float>& others = got.at(name);
    REQUIRE(others.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - others[i]) < 1e-4F);
  }
}

int own_sample(const Mesh& mesh) { return mesh.coordinate(Axis::kData); }

std::vector<ParamSpec> dense(const Mesh& /*mesh*/) {
  return {spec_of("a", {37, 5}), spec_of("b", {64}, 1), spec_of("c", {3}, 1),
          spec_of("d", {200}, 2)};
}

TEST_CASE("parameters of two dtypes train side by side as each would alone", "[zero][device]") {
  const auto only = [](bool wide) {
    return [wide](const Mesh& mesh) {
      std::vector<ParamSpec> specs;
      for (ParamSpec spec : dense(mesh)) {
        if ((spec.name == "b" || spec.name == "d") == wide) continue;
        spec.dtype = wide ? DType::kF32 : DType::kBF16;
        specs.push_back(spec);
      }
      return specs;
    };
  };
  const auto both = [&](const Mesh& mesh) {
    std::vector<ParamSpec> specs = dense(mesh);
    for (ParamSpec& spec : specs) {
      if (spec.name == "b" || spec.name == "d") spec.dtype = DType::kBF16;
    }
    return specs;
  };
  for (const int ranks : {1, 2, 3}) {
    for (const int stage : {0, 1, 2, 3}) {
      CAPTURE(ranks, stage);
      const MeshSizes sizes{.data = ranks};
      const auto job = [&](auto params) {
        return Job{.sizes = sizes, .stage = stage, .params = params, .sample = own_sample};
      };
      const Outcome together = run(job(both), ranks);
      const Outcome narrow_ones = run(job(only(false)), ranks);
      const Outcome wide_ones = run(job(only(true)), ranks);
      Values apart = narrow_ones.weights;
      apart.insert(wide_ones.weights.begin(), wide_ones.weights.end());
      CHECK((together.weights == apart));
      CHECK(together.squares == Approx(narrow_ones.squares + wide_ones.squares));
      check_counts(together.saved, 1);
    }
  }
}

TEST_CASE("experts are trained by the ranks that have them", "[zero][device]") {
  const auto with_expert = [](const Mesh& mesh) {
    std::vector<ParamSpec> specs = dense(mesh);
    ParamSpec expert = spec_of(fmt::format("expert{}", mesh.coordinate(Axis::kExpert)), {17, 9}, 1);
    expert.group = ParamGroup::kExpert;
    specs.insert(specs.begin() + 2, expert);
    return specs;
  };
  const auto only_expert = [](int number) {
    return [number](const Mesh&) {
      return std::vector<ParamSpec>{spec_of(fmt::format("expert{}", number), {17, 9}, 1)};
    };
  };
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    const Outcome all = run({.sizes = {.data = 4, .expert = 2},
                             .stage = stage,
                             .params = with_expert,
                             .sample = own_sample},
                            4);
    const Outcome without =
        run({.sizes = {.data = 4}, .stage = stage, .params = dense, .sample = own_sample}, 4);
    Values expected = without.weights;
    double squares = without.squares;
    for (const int number : {0, 1}) {  // ranks 0 and 2 have the first, 1 and 3 the second
      const Outcome alone =
          run({.sizes = {.data = 2},
               .stage = stage,
               .params = only_expert(number),
               .sample = [&](const Mesh& m) { return 2 * own_sample(m) + number; }},
              2);
      expected.insert(alone.weights.begin(), alone.weights.end());
      squares += alone.squares;
    }
    CHECK((all.weights == expected));
    CHECK(all.squares == Approx(squares));
    check_counts(all.saved, 1);
    check_counts(all.restored, 1);
  }
}

TEST_CASE("ranks that share out among neighbours train as all of them together", "[zero][device]") {
  const Outcome expected = run({.sizes = {.data = 4}, .params = dense, .sample = own_sample}, 4);
  Values first;
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    const Outcome near = run({.sizes = {.data = 4, .shard = 2},
                              .stage = stage,
                              .shard_over = Axis::kShard,
                              .params = dense,
                              .sample = own_sample},
                             4);
    check_close(near.weights, expected.weights);
    CHECK(near.squares == Approx(expected.squares).epsilon(1e-5));
    check_counts(near.saved, 1);
    check_counts(near.restored, 2);  // by both that have the slice
    if (first.empty()) first = near.weights;
    CHECK((near.weights == first));
  }
}

// Two ranks of a tensor axis have the same norm and make the same gradient of it; the matrix beside
// it is cut in two.
TEST_CASE("a piece that several ranks have is saved once and counted once", "[zero][device]") {
  const auto params = [](const Mesh& mesh) {
    ParamSpec cut = spec_of(fmt::format("cut{}", mesh.coordinate(Axis::kTensor)), {8, 16});
    ParamSpec norm = spec_of("n", {16});
    norm.replicas.same = {Axis::kTensor};
    return std::vector<ParamSpec>{cut, norm};
  };
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    const Outcome two = run(
        {.sizes = {.data = 2, .tensor = 2}, .stage = stage, .params = params, .sample = own_sample},
        4);
    const Outcome one =
        run({.sizes = {.data = 2},
             .stage = stage,
             .params =
                 [](const Mesh&) {
                   return std::vector<ParamSpec>{spec_of("cut0", {8, 16}), spec_of("cut1", {8, 16}),
                                                 spec_of("n", {16})};
                 },
             .sample = own_sample},
            2);
    CHECK((two.weights == one.weights));
    // At stage 0 every rank has the whole state, and its slice of it is what counts.
    CHECK(two.squares == Approx(one.squares));
    check_counts(two.saved, 1);
    CHECK(two.restored.at("n").front() == 2);
  }
}

// As under sequence parallelism: each rank makes its part of the gradient, from tokens of its own.
TEST_CASE("parts of a gradient that ranks with the same piece make are summed", "[zero][device]") {
  const auto params = [](const Mesh& mesh) {
    std::vector<ParamSpec> specs = dense(mesh);
    for (ParamSpec& spec : specs) spec.replicas.summed = {Axis::kSequence};
    return specs;
  };
  const Outcome expected = run({.sizes = {.data = 4}, .params = dense, .sample = own_sample}, 4);
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    const Outcome cut =
        run({.sizes = {.data = 2, .sequence = 2},
             .stage = stage,
             .params = params,
             .sample =
                 [](const Mesh& mesh) {
                   return 2 * mesh.coordinate(Axis::kData) + mesh.coordinate(Axis::kSequence);
                 }},
            4);
    check_close(cut.weights, expected.weights);
    CHECK(cut.squares == Approx(expected.squares).epsilon(1e-5));
    check_counts(cut.saved, 1);
  }
}

TEST_CASE("what is frozen stays as it is, beside what trains as if it were alone",
          "[zero][device]") {
  const auto beside = [](DType dtype) {
    return [dtype](const Mesh& mesh) {
      std::vector<ParamSpec> specs = dense(mesh);
      for (ParamSpec& spec : specs) {
        spec.dtype = dtype;
        spec.trains = spec.name == "b" || spec.name == "d";
      }
      return specs;
    };
  };
  const auto only = [&](DType dtype, bool trains) {
    return [&, dtype, trains](const Mesh& mesh) {
      std::vector<ParamSpec> specs = beside(dtype)(mesh);
      std::erase_if(specs, [&](const ParamSpec& spec) { return spec.trains != trains; });
      for (ParamSpec& spec : specs) spec.trains = true;
      return specs;
    };
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int ranks : {1, 2, 3}) {
      for (const int stage : {0, 1, 2, 3}) {
        CAPTURE(name_of(dtype), ranks, stage);
        const auto job = [&](auto params) {
          return Job{
              .sizes = {.data = ranks}, .stage = stage, .params = params, .sample = own_sample};
        };
        const Outcome together = run(job(beside(dtype)), ranks);
        const Outcome trained = run(job(only(dtype, true)), ranks);
        Values expected = run(job(only(dtype, false)), ranks, 0).weights;
        expected.insert(trained.weights.begin(), trained.weights.end());
        CHECK((together.weights == expected));
        CHECK(together.squares == trained.squares);
        check_counts(together.saved, 1);
        CHECK(together.saved.size() == 4);
      }
    }
  }
}

TEST_CASE("what is frozen shares no group with what trains, and sends no gradient", "[zero]") {
  ParamSpec table = spec_of("table", {700, 8});
  table.looked_up = true;
  ParamSpec frozen = table;
  frozen.trains = false;
  ZeroOptions options;
  options.placement.policy = zero_policy(0);
  options.wire.dtype = DType::kBF16;
  options.wire.sparse_tokens = 4;
  const GroupKey of_table = group_key(table, options), of_frozen = group_key(frozen, options);
  CHECK_FALSE(of_table == of_frozen);
  CHECK(of_table.wire == DType::kBF16);
  CHECK(of_frozen.wire == std::nullopt);
  CHECK(touched_rows(table, 1, of_table, options, 2).any());
  CHECK_FALSE(touched_rows(frozen, 1, of_frozen, options, 2).any());
}

TEST_CASE("a store refuses a gradient of what does not train", "[zero]") {
  test::run_ranks(1, [](Communicator& world) {
    const Job job{.sizes = {},
                  .params =
                      [](const Mesh& mesh) {
                        std::vector<ParamSpec> specs = dense(mesh);
                        specs.front().trains = false;
                        return specs;
                      },
                  .sample = own_sample};
    Rank rank(job, world);
    rank.store().step().begin();
    rank.store().begin_micro_step();
    std::string why;
    try {
      rank.store().grad_slot(0);
    } catch (const InternalError& error) {
      why = error.what();
    }
    require(why.find("a does not train") != std::string::npos, "a slot of what is frozen: {}", why);
  });
}

TEST_CASE("an expert is not sharded over neighbours", "[zero]") {
  ParamSpec expert = spec_of("moe", {4});
  expert.group = ParamGroup::kExpert;
  ZeroOptions options;
  options.placement.policy = zero_policy(1);
  options.placement.policy.shard_over = Axis::kShard;
  CHECK_THROWS_AS(group_key(expert, options), Unsupported);
  CHECK_THROWS_WITH(group_key(expert, options), Catch::Contains("moe is an expert's"));
  CHECK(group_key(spec_of("dense", {4}), options).summed == std::vector{Axis::kReplica});
}

TEST_CASE("gradients of the named kinds of modules travel in another dtype", "[zero]") {
  ParamSpec linear = spec_of("linear", {4}), table = spec_of("table", {4});
  linear.module = ModuleKind::kLinear;
  table.module = ModuleKind::kEmbedding;
  ZeroOptions options;
  options.placement.policy = zero_policy(1);
  CHECK(group_key(linear, options) == group_key(table, options));
  options.wire.dtype = DType::kBF16;
  CHECK(group_key(linear, options).wire == DType::kBF16);
  CHECK(group_key(linear, options) == group_key(table, options));
  options.wire.modules = {ModuleKind::kLinear};
  CHECK(group_key(linear, options).wire == DType::kBF16);
  CHECK(group_key(table, options).wire == std::nullopt);
}

}  // namespace
}  // namespace ds
