// The thread that talks to peers: its order, its errors, and that a store which has one comes to
// the bits, and to the traffic, of one that has none.
#include "zero/peers/comm_thread.h"

#include <latch>
#include <map>

#include "comm/traced_comm.h"
#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/tcp_ranks.h"
#include "tests/zero/quantized_reference.h"
#include "zero/sharded_store.h"

namespace ds {
namespace {

struct Talker {
  testing::CpuStream own;
  CommThread thread{own.stream};
};

TEST_CASE("work is done in order by one thread, on its stream and under its label", "[zero]") {
  Talker talker;
  std::vector<int> seen;
  std::vector<std::thread::id> by;
  bool fits = true;
  for (int i = 0; i < 100; ++i) {
    talker.thread.give(
        [&, i](Stream& on) {
          seen.push_back(i);
          by.push_back(std::this_thread::get_id());
          fits = fits && &on == &talker.own.stream && on.label() == "h.3";
        },
        "h.3");
  }
  CHECK(talker.thread.given() == 100);
  talker.thread.wait(100);
  CHECK(fits);
  CHECK(seen.size() == 100);
  CHECK(std::ranges::is_sorted(seen));
  CHECK(std::ranges::count(by, by.front()) == 100);
  CHECK(by.front() != std::this_thread::get_id());
}

TEST_CASE("who waits for some work goes on while the rest is under way", "[zero]") {
  Talker talker;
  std::latch goes_on{1};
  bool first = false, second = false;
  talker.thread.give([&](Stream&) { first = true; }, "");
  talker.thread.give(
      [&](Stream&) {
        goes_on.wait();
        second = true;
      },
      "");
  talker.thread.wait(1);
  CHECK(first);
  goes_on.count_down();
  talker.thread.wait(2);
  CHECK(second);
}

TEST_CASE("what fails is told to who waits for it or gives more, and nothing is begun after it",
          "[zero]") {
  Talker talker;
  bool after = false;
  talker.thread.give([](Stream&) {}, "");
  std::latch is_given{1};
  talker.thread.give(
      [&](Stream&) {
        is_given.wait();
        throw CommError("rank 1 died");
      },
      "");
  talker.thread.give([&](Stream&) { after = true; }, "");
  is_given.count_down();
  CHECK_NOTHROW(talker.thread.wait(1));
  CHECK_THROWS_WITH(talker.thread.wait(3), "rank 1 died");
  CHECK_THROWS_WITH(talker.thread.wait(2), "rank 1 died");
  CHECK_THROWS_WITH(talker.thread.give([](Stream&) {}, ""), "rank 1 died");
  talker.thread.idle();
  CHECK_FALSE(after);
}

TEST_CASE("work that is abandoned before it has begun never does", "[zero]") {
  Talker talker;
  std::latch has_begun{1}, goes_on{1};
  bool ended = false, after = false;
  talker.thread.give(
      [&](Stream&) {
        has_begun.count_down();
        goes_on.wait();
        ended = true;
      },
      "");
  talker.thread.give([&](Stream&) { after = true; }, "");
  has_begun.wait();
  std::thread later([&] { goes_on.count_down(); });
  talker.thread.abandon();
  later.join();
  CHECK(ended);
  CHECK_FALSE(after);
  CHECK_NOTHROW(talker.thread.wait(2));
}

// Stores ------------------------------------------------------------------------------------------
enum class Talk : uint8_t { kInTurn, kByThread };

struct Job {
  int stage = 3;
  ZeroPlusPlus how{};
  int near = 1;
  DType wire = DType::kBF16;
  int micro_steps = 2;
};

constexpr int64_t kSlice = 2112;
using Floats = std::vector<float>;
struct Seen {
  std::vector<Floats> weights, gradients;
  CommVolume::ByAxis traffic;
  bool operator==(const Seen&) const = default;
};

Floats floats(const Tensor& tensor) {
  testing::CpuStream own;
  Tensor wide = Tensor::empty(tensor.shape(), DType::kF32, own.stream);
  kernels::cast(own.stream, tensor, wide);
  return {wide.data<float>(), wide.data<float>() + wide.numel()};
}

class TestedStore {
 public:
  TestedStore(Communicator& world, const Job& job, Talk talk)
      : job_(job),
        own_(world),
        handle_(world),
        talker_(talk == Talk::kByThread ? std::make_unique<Talker>() : nullptr),
        mesh_(testing::traced_mesh(world, {.data = world.size(), .shard = job.near}, volume_)),
        store_(options(world), mesh_,
               StoreStreams{own_.stream, handle_.stream, talker_ ? &talker_->thread : nullptr},
               world.memory()) {
    for (int unit = 0; unit < kUnits; ++unit) {
      store_.add({.name = fmt::format("p{}", unit),
                  .shape = Shape({kSlice, world.size()}),
                  .dtype = DType::kBF16,
                  .init = {.kind = Initializer::Kind::kNormal, .extent = 0.5F},
                  .unit = unit});
    }
    store_.seal();
    store_.state().initialize(7);
  }

  ShardedStore& store() { return store_; }
  void micro_step(int number, Seen& seen) {
    store_.begin_micro_step();
    for (ParamId id = 0; id < kUnits; ++id) see(id, seen);
    for (ParamId id = kUnits - 1; id >= 0; --id) {
      const Lease lease = store_.acquire(id);
      GradSlot slot = store_.grad_slot(id);
      kernels::cast(own_.stream, lease.weight(), slot.grad);
      kernels::scale(own_.stream, static_cast<float>(1 + number + mesh_.rank()), slot.grad);
      store_.grad_ready(id);
    }
    store_.end_micro_step();
  }
  Seen step() {
    Seen seen;
    volume_.reset();
    store_.step().begin();
    for (int number = 0; number < job_.micro_steps; ++number) micro_step(number, seen);
    store_.reduce_gradients();
    seen.traffic = volume_.totals();
    for (const Shard& shard : store_.groups().front()->shards()) {
      seen.gradients.push_back(floats(shard.grad));
    }
    for (ParamId id = 0; id < kUnits; ++id) see(id, seen);  // as evaluations do
    return seen;
  }
  // As the engine does with what the dry run has recorded.
  void follow(TestedStore& recorded) {
    store_.gathers().follow(
        recorded.store_.gathers().plan({.prefetch_numel = 100'000, .live_numel = 1'000'000}));
  }
  void follow_buckets(std::vector<AllocationSpan> recorded) {
    store_.gathers().slots().follow(
        {.micro_step = plan_arena(std::move(recorded)), .evaluation = {}}, own_.stream);
  }

 private:
  static constexpr int kUnits = 4;
  ZeroOptions options(const Communicator& world) const {
    ZeroPolicy policy = zero_policy(job_.stage);
    policy.plus_plus = job_.how;
    return {.layout = {.bucket_numel = kSlice * world.size(), .persistence_numel = 10},
            .placement = {.policy = policy},
            .state = {.slots = {{.name = "exp_avg"}}},
            .wire = {.micro_steps = job_.micro_steps}};
  }
  void see(ParamId id, Seen& seen) {
    const Lease lease = store_.acquire(id);
    seen.weights.push_back(floats(lease.weight()));
  }

  const Job job_;
  test::RankStream own_, handle_;
  std::unique_ptr<Talker> talker_;
  CommVolume volume_;
  Mesh mesh_;
  ShardedStore store_;
};

// Without a plan, where buckets are gathered when they are wanted.
std::vector<Seen> on_demand(int ranks, const Job& job, Talk talk) {
  std::vector<Seen> seen(to_size(ranks));
  test::run_ranks(ranks, [&](Communicator& world) {
    nth(seen, world.rank()) = TestedStore(world, job, talk).step();
  });
  return seen;
}

// Three steps by a plan, as the engine makes one: the order of gathers first, then the places that
// these take.
std::vector<std::vector<Seen>> by_plan(int ranks, const Job& job, Talk talk) {
  std::vector<std::vector<Seen>> seen(to_size(ranks));
  test::run_ranks(ranks, [&](Communicator& world) {
    TestedStore first(world, job, Talk::kInTurn), second(world, job, Talk::kInTurn);
    first.step();
    second.follow(first);
    second.step();
    TestedStore planned(world, job, talk);
    planned.follow(first);
    planned.follow_buckets(second.store().gathers().slots().recorded());
    for (int step = 0; step < 3; ++step) nth(seen, world.rank()).push_back(planned.step());
  });
  return seen;
}

TEST_CASE("a store whose thread talks to peers has the bits and the traffic of one without",
          "[zero]") {
  const ZeroPlusPlus all{
      .quantized_weights = true, .quantized_gradients = true, .secondary_weights = true};
  ZeroPlusPlus fed = all;
  fed.feedback.on = true;
  for (const Job& job : {Job{.stage = 2}, Job{}, Job{.micro_steps = 1}, Job{.how = all, .near = 2},
                         Job{.how = fed, .near = 2}}) {
    CAPTURE(job.stage, job.micro_steps, job.near, job.how.feedback.on);
    CHECK((on_demand(4, job, Talk::kByThread) == on_demand(4, job, Talk::kInTurn)));
    CHECK((by_plan(4, job, Talk::kByThread) == by_plan(4, job, Talk::kInTurn)));
  }
}

TEST_CASE("a rank that is lost in a micro-step is one error of those that talk by a thread",
          "[zero]") {
  std::mutex mutex;
  std::vector<std::string> said;
  const auto lose = [&](Communicator& world) {
    TestedStore tested(world, {.micro_steps = 1}, Talk::kByThread);
    ShardedStore& store = tested.store();
    store.step().begin();
    store.begin_micro_step();
    { const Lease lease = store.acquire(0); }
    if (world.rank() == 1) throw IoError("gone");
    const std::string error = test::comm_error_of(std::chrono::seconds(20), [&] {
      Seen seen;
      { const Lease lease = store.acquire(1); }
      { const Lease lease = store.acquire(2); }
      store.end_micro_step();
    });
    const std::lock_guard lock(mutex);
    said.push_back(error);
  };
  CHECK_THROWS_WITH(test::run_group(test::make_tcp_group(2), lose), "gone");
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::Contains("all_gather") && Catch::Contains("rank 1"));
}

TEST_CASE("a thread talks to peers of stores that keep everything on the device and send it whole",
          "[zero]") {
  ZeroPolicy offloaded = zero_policy(3);
  offloaded.params.tier = Tier::kHost;
  const std::vector<std::pair<ZeroOptions, std::string_view>> cases{
      {{.placement = {.policy = offloaded}}, "are offloaded"},
      {{.placement = {.policy = zero_policy(0)}, .wire = {.sparse_tokens = 1}}, "go by rows"}};
  test::run_ranks(1, [&](Communicator& world) {
    test::RankStream own(world), handle(world);
    Talker talker;
    Mesh mesh = Mesh::over(world, {});
    HostMemory host;
    for (const auto& [options, why] : cases) {
      bool refused = false;
      try {
        const ShardedStore store(options, mesh,
                                 StoreStreams{own.stream, handle.stream, &talker.thread},
                                 world.memory(), OffloadPlaces{.weights = {.host = &host}});
      } catch (const InternalError& error) {
        refused = std::string_view(error.what()).find(why) != std::string_view::npos;
      }
      test::require(refused, "a store has a thread for its peers that must not");
    }
  });
}

}  // namespace
}  // namespace ds
