#include "zero/sharded_store.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "core/memory/adaptors.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/step_numbers.h"
#include "tests/zero/device_rank.h"

namespace ds {
namespace {

using testing::DeviceRank;
using Weights = std::map<std::string, std::vector<float>>;

struct Case {
  int stage = 0;
  int ranks = 2;
  int micro_steps = 1;
  DType dtype = DType::kF32;
  int64_t persistence_numel = 0;
  GatherLimits gather{};
};

const std::vector<std::pair<Shape, int>> kParams{
    {Shape{37, 5}, 0}, {Shape{64}, 1}, {Shape{3}, 1}, {Shape{200}, 1}, {Shape{11, 11}, 2}};

ZeroOptions options_of(const Case& c) {
  return {
      .layout = {.bucket_numel = 150, .persistence_numel = c.persistence_numel, .gather = c.gather},
      .placement = {.policy = zero_policy(c.stage)},
      .state = {.slots = {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}},
      .wire = {.slice_dtype = DType::kF32, .micro_steps = c.micro_steps}};
}

void add_params(ShardedStore& store, DType dtype) {
  for (size_t i = 0; i < kParams.size(); ++i) {
    store.add({.name = "p" + std::to_string(i),
               .shape = kParams[i].first,
               .dtype = dtype,
               .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F},
               .unit = kParams[i].second});
  }
  store.expect_uses(1, 2);  // as a tied weight
  store.seal();
}

// Gradient of element i: depends on the weight, the sample and the parameter, irrational enough
// that another order of addition shows.
float gradient(float weight, int sample, int param, int64_t i) {
  return std::sin(weight * 3.0F + static_cast<float>(sample * 7 + param * 13) +
                  static_cast<float>(i) * 0.37F);
}

void contribute(ShardedStore& store, Stream& stream, ParamId id, int sample) {
  const Lease lease = store.acquire(id);
  GradSlot slot = store.grad_slot(id);
  std::vector<float> values = testing::floats_of(lease.weight());
  for (int64_t i = 0; i < narrow<int64_t>(values.size()); ++i) {
    nth(values, i) = gradient(nth(values, i), sample, id, i);
  }
  const Tensor grad = testing::upload(values, lease.weight().shape(), stream);
  if (slot.write == kernels::Write::kOverwrite) {
    kernels::cast(stream, grad, slot.grad);
  } else {
    kernels::accumulate(stream, grad, slot.grad);
  }
  store.grad_ready(id);
}

// Forward visits parameters in order, backward in reverse; the tied one is met twice.
void micro_step(ShardedStore& store, Stream& stream, int sample) {
  store.begin_micro_step();
  for (ParamId id = 0; id < store.count(); ++id) store.acquire(id);
  contribute(store, stream, 1, sample);
  for (ParamId id = store.count() - 1; id >= 0; --id) contribute(store, stream, id, sample);
  store.end_micro_step();
}

Weights weights_of(ShardedStore& store) {
  Weights result;
  for (ParamId id = 0; id < store.count(); ++id) {
    const Lease lease = store.acquire(id);
    result[store.spec(id).name] = testing::floats_of(lease.weight());
  }
  return result;
}

struct Outcome {
  Weights weights;
  std::vector<double> norms;
};

Outcome train(const Case& c, int steps) {
  Outcome outcome;
  std::mutex outcome_mutex;
  test::run_ranks(c.ranks, [&](Communicator& world) {
    DeviceRank rank(world);
    Communicator& comm = rank.comm();
    Stream& stream = rank.stream();
    Mesh mesh = Mesh::over(comm, {.data = comm.size()});
    ShardedStore store(options_of(c), mesh, {stream, stream}, comm.memory());
    add_params(store, c.dtype);
    store.state().initialize(99);
    const auto adam = make_adam({.weight_decay = 0.1});
    std::vector<double> norms;
    for (int step = 1; step <= steps; ++step) {
      store.step().begin();
      for (int micro = 0; micro < c.micro_steps; ++micro) {
        micro_step(store, stream, (step * c.micro_steps + micro) * c.ranks + comm.rank());
        if (c.gather.live_numel > 0 && step == 1 && micro == 0) {
          store.gathers().follow(store.gathers().plan(c.gather));
        }
      }
      store.reduce_gradients();
      const StepScalars scalars =
          testing::scalars_of(stream, adam->inputs({.lr = 0.01}, step), {.grad_scale = 0.5F});
      store.step().add_sum_of_squares(scalars.squares());
      norms.push_back(*testing::host_copy(scalars.squares()).data<double>());
      store.step().update(*adam, scalars);
      store.step().publish();
    }
    Weights weights = weights_of(store);
    const std::lock_guard lock(outcome_mutex);
    if (comm.rank() == 0) outcome = {.weights = std::move(weights), .norms = norms};
  });
  return outcome;
}

TEST_CASE("stages 0 to 3 give the same bits at equal ranks, with and without accumulation",
          "[zero][device]") {
  for (const int ranks : {1, 2, 3}) {
    for (const int micro_steps : {1, 3}) {
      const Outcome expected = train({.stage = 0, .ranks = ranks, .micro_steps = micro_steps}, 4);
      for (const int stage : {1, 2, 3}) {
        CAPTURE(ranks, micro_steps, stage);
        const Outcome got = train({.stage = stage, .ranks = ranks, .micro_steps = micro_steps}, 4);
        CHECK(got.weights == expected.weights);
        CHECK(got.norms == expected.norms);
      }
    }
  }
}

TEST_CASE("each slot of the optimizer has the dtype that was asked for, and is shown in fp32",
          "[zero][device]") {
  for (int stage = 0; stage <= 3; ++stage) {
    test::run_ranks(2, [&](Communicator& world) {
      DeviceRank rank(world);
      Communicator& comm = rank.comm();
      Stream& stream = rank.stream();
      Mesh mesh = Mesh::over(comm, {.data = comm.size()});
      ZeroOptions options = options_of({.stage = stage});
      options.state.slots = {{.name = "first", .dtype = DType::kBF16}, {.name = "second"}};
      ShardedStore store(options, mesh, {stream, stream}, comm.memory());
      add_params(store, DType::kF32);
      const auto check_slots = [](const Tensor& master, const std::vector<Tensor>& slots,
                                  DType first) {
        test::require(slots.size() == 2 && slots[0].dtype() == first &&
                          slots[1].dtype() == DType::kF32 && slots[0].numel() == master.numel() &&
                          slots[1].numel() == master.numel(),
                      "slots are not those that were asked for");
      };
      for (const Shard& shard : store.groups().front()->shards()) {
        check_slots(shard.master, shard.slots, DType::kBF16);
      }
      store.state().visit_owned(Visit::kSave, [&](OwnedPart& part) {
        check_slots(part.master, part.slots, DType::kF32);  // as checkpoints have them
      });
      store.state().restore_from_owned();
    });
  }
}

TEST_CASE("any number of ranks trains to the same weights but for rounding", "[zero][device]") {
  const Outcome one = train({.stage = 0, .ranks = 1, .micro_steps = 4}, 3);
  for (const int ranks : {2, 4}) {
    for (const int stage : {0, 1, 2, 3}) {
      CAPTURE(ranks, stage);
      const Outcome many = train({.stage = stage, .ranks = ranks, .micro_steps = 4 / ranks}, 3);
      for (const auto& [name, values] : one.weights) {
        const std::vector<float>& others = many.weights.at(name);
        for (size_t i = 0; i < values.size(); ++i) {
          REQUIRE(std::abs(values[i] - others[i]) < 1e-5F);
        }
      }
    }
  }
}

TEST_CASE("stage 3 gives the same bits whatever is prefetched, kept or persistent",
          "[zero][device]") {
  const Outcome persistent0 = train({.stage = 0, .persistence_numel = 100}, 3);
  const Outcome plain = train({.stage = 3}, 3);
  for (const GatherLimits& limits :
       {GatherLimits{.prefetch_numel = 0, .live_numel = 1, .reuse_numel = 0},
        GatherLimits{.prefetch_numel = 200, .live_numel = 100000, .reuse_numel = 0},
        GatherLimits{.prefetch_numel = 100000, .live_numel = 100000, .reuse_numel = 100000}}) {
    CHECK(train({.stage = 3, .gather = limits}, 3).weights == plain.weights);
    CHECK(train({.stage = 3, .persistence_numel = 100, .gather = limits}, 3).weights ==
          persistent0.weights);
  }
}

TEST_CASE("16-bit weights are the rounded master weights at every stage", "[zero][device]") {
  const Outcome expected = train({.stage = 1, .dtype = DType::kBF16}, 3);
  for (const int stage : {0, 2, 3}) {
    CAPTURE(stage);
    CHECK(train({.stage = stage, .dtype = DType::kBF16}, 3).weights == expected.weights);
  }
}

// Model state of one rank in bytes per parameter, by the table of the ZeRO paper (fp32, Adam).
TEST_CASE("each stage keeps what the ZeRO formula says", "[zero]") {
  constexpr int kRanks = 4;
  for (int stage = 0; stage <= 3; ++stage) {
    test::run_ranks(kRanks, [&](Communicator& comm) {
      HostMemory memory;
      MemoryAccount account;
      TrackingMemory heap(memory, account);
      TrackingMemory shared(comm.memory(), account);
      ThreadPool pool(1);
      Stream stream({.memory = &heap, .pool = &pool});
      Mesh mesh = Mesh::over(comm, {.data = comm.size()});
      ShardedStore store(options_of({.stage = stage}), mesh, {stream, stream}, shared);
      for (int i = 0; i < 8; ++i) {
        store.add({.name = std::to_string(i), .shape = {64, 128}, .unit = i});
      }
      store.seal();
      const double numel = 8 * 64 * 128;
      const std::array<double, 4> formula{16, 8 + 8.0 / kRanks, 4 + 12.0 / kRanks, 16.0 / kRanks};
      const double bytes = static_cast<double>(account.usage().bytes_now);
      if (std::abs(bytes / numel - formula[static_cast<size_t>(stage)]) > 0.01) {
        throw InternalError(fmt::format("stage {}: {} bytes per parameter", stage, bytes / numel));
      }
    });
  }
}

TEST_CASE("initial weights have the same bits with one thread and with eight", "[zero][device]") {
  const auto begun_with = [](int threads, int stage) {
    Weights weights;
    test::run_ranks(1, [&](Communicator& world) {
      DeviceRank rank(world, threads);
      Communicator& comm = rank.comm();
      Mesh mesh = Mesh::over(comm, {.data = comm.size()});
      ShardedStore store(options_of({.stage = stage}), mesh, {rank.stream(), rank.stream()},
                         comm.memory());
      for (const int64_t rows : {3, 401}) {  // less than a thread's share, and more of eight
        store.add({.name = "w" + std::to_string(rows),
                   .shape = {rows, 103},
                   .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F}});
      }
      store.seal();
      store.state().initialize(99);
      weights = weights_of(store);
    });
    return weights;
  };
  for (const int stage : {0, 3}) {
    const Weights expected = begun_with(1, stage);
    CHECK(expected.at("w401").front() != expected.at("w401").back());
    CHECK(begun_with(8, stage) == expected);
  }
}

TEST_CASE("every element is visited once by one rank, and the parts are known beforehand",
          "[zero][device]") {
  for (const int stage : {0, 1, 2, 3}) {
    std::map<int, std::vector<int>> visits;  // parameter -> how often each element was met
    for (int p = 0; p < narrow<int>(kParams.size()); ++p) {
      visits[p].resize(to_size(nth(kParams, p).first.numel()));
    }
    std::mutex mutex;
    test::run_ranks(3, [&](Communicator& world) {
      DeviceRank rank(world);
      Communicator& comm = rank.comm();
      Stream& stream = rank.stream();
      Mesh mesh = Mesh::over(comm, {.data = comm.size()});
      ShardedStore store(options_of({.stage = stage}), mesh, {stream, stream}, comm.memory());
      add_params(store, DType::kBF16);
      const std::vector<std::vector<ShardField>> announced =
          store.state().owned_fields(Visit::kSave);
      std::vector<std::vector<ShardField>> met;
      const std::lock_guard lock(mutex);
      store.state().visit_owned(Visit::kSave, [&](OwnedPart& part) {
        met.push_back(part.fields);
        if (part.slots.size() != 2) throw InternalError("a part without its slots");
        for (const ShardField& field : part.fields) {
          if (field.offset + field.numel > part.master.numel()) throw InternalError("beyond it");
          for (int64_t i = 0; i < field.numel; ++i)
            ++nth(visits[field.param], field.param_begin + i);
        }
      });
      if (met != announced) throw InternalError("other parts than announced");
    });
    for (const auto& [param, counts] : visits) {
      CAPTURE(stage, param);
      CHECK(std::ranges::all_of(counts, [](int count) { return count == 1; }));
    }
  }
}

TEST_CASE("state written out by slices and read back gives the same continuation",
          "[zero][device]") {
  for (const int stage : {0, 1, 3}) {
    test::run_ranks(2, [&](Communicator& world) {
      DeviceRank rank(world);
      Communicator& comm = rank.comm();
      Stream& stream = rank.stream();
      Mesh mesh = Mesh::over(comm, {.data = comm.size()});
      ShardedStore a(options_of({.stage = stage}), mesh, {stream, stream}, comm.memory());
      ShardedStore b(options_of({.stage = stage}), mesh, {stream, stream}, comm.memory());
      add_params(a, DType::kF32);
      add_params(b, DType::kF32);
      a.state().initialize(1);
      b.state().initialize(2);
      std::vector<Tensor> from;
      a.state().visit_owned(Visit::kSave, [&](OwnedPart& part) { from.push_back(part.master); });
      size_t next = 0;
      b.state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
        kernels::cast(stream, from.at(next++), part.master);
      });
      if (next != from.size()) throw InternalError("the stores have different parts");
      b.state().restore_from_owned();
      if (weights_of(a) != weights_of(b)) {
        throw InternalError(fmt::format("stage {}: weights differ after restore", stage));
      }
    });
  }
}

TEST_CASE("a parameter that gets too few or too many contributions is an error", "[zero][device]") {
  test::run_ranks(1, [](Communicator& world) {
    DeviceRank rank(world);
    Communicator& comm = rank.comm();
    Stream& stream = rank.stream();
    Mesh mesh = Mesh::over(comm, {.data = comm.size()});
    ShardedStore store(options_of({}), mesh, {stream, stream}, comm.memory());
    add_params(store, DType::kF32);
    store.state().initialize(1);
    store.step().begin();
    store.begin_micro_step();
    contribute(store, stream, 0, 0);
    CHECK_THROWS_WITH(store.end_micro_step(), Catch::Contains("parameter 1: 0 contributions"));
    CHECK_THROWS_WITH(store.add({.name = "late", .shape = {1}}), Catch::Contains("after seal"));
  });
}

TEST_CASE("what comes too early in a step is named", "[zero]") {
  test::run_ranks(1, [&](Communicator& comm) {
    test::RankStream own(comm);
    Mesh mesh = Mesh::over(comm, {.data = 1});
    ShardedStore store({.placement = {.policy = zero_policy(1)},
                        .state = {.slots = {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}}},
                       mesh, {own.stream, own.stream}, comm.memory());
    store.add({.name = "w", .shape = Shape({8})});
    store.seal();
    store.state().initialize(1);
    const auto adam = make_adam({});
    const StepScalars scalars(1, own.stream);
    StoreStep& step = store.step();
    const auto refused = [&](std::string_view why, const std::function<void()>& call) {
      try {
        call();
      } catch (const InternalError& error) {
        return test::require(std::string_view(error.what()).find(why) != std::string_view::npos,
                             "said '{}' instead of '{}'", error.what(), why);
      }
      throw InternalError(fmt::format("it went through: {}", why));
    };
    const auto contribute = [&] {
      store.begin_micro_step();
      GradSlot slot = store.grad_slot(0);
      kernels::fill(own.stream, slot.grad, 1.0F);
      store.grad_ready(0);
      store.end_micro_step();
    };
    refused("a micro-step is due when a step has begun, and no step has begun",
            [&] { store.begin_micro_step(); });
    step.begin();
    refused("the norm of gradients is due when gradients were reduced, and a step has begun",
            [&] { step.add_sum_of_squares(scalars.squares()); });
    contribute();
    refused("the update is due when gradients were reduced", [&] { step.update(*adam, scalars); });
    store.reduce_gradients();
    refused(
        "a micro-step that is repeated is due when a step has begun, and gradients were reduced",
        [&] { step.repeat_micro_step(); });
    refused("the reduction of gradients is due when a step has begun",
            [&] { store.reduce_gradients(); });
    refused("what publishes weights is due when weights were updated", [&] { step.publish(); });
    step.begin();  // a step may be left at any place
    contribute();
    store.reduce_gradients();
    step.update(*adam, testing::scalars_of(own.stream, adam->inputs({.lr = 0.01}, 1), {}));
    step.publish();
    refused("what publishes weights is due when weights were updated, and no step has begun",
            [&] { step.publish(); });
  });
}

}  // namespace
}  // namespace ds
