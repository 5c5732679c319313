// What is measured of a real engine's steps, against the clock of who waits for them, and against
// what the plan and the formula say is sent.
#include "tests/bench/median.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/measure/step_timer.h"
#include "train/plan/dry_run.h"
#include "train/watch/comms_table.h"

namespace ds {
namespace {

constexpr int kRanks = 2;
constexpr int kSteps = 9;

struct Watched {
  std::vector<int64_t> wire_bytes;  // by the communication log, of each step
  std::vector<double> shares;       // of a step's time that its parts make up
};

void add_calls(CommsTable& table, const std::vector<MeasuredCall>& calls) {
  for (const MeasuredCall& call : calls) {
    table.add({.name = name_of(call.op),
               .op = call.op,
               .bytes = call.bytes,
               .ranks = call.ranks,
               .seconds = call.seconds});
  }
}

Watched train_watched(const EngineOptions& options) {
  const RunPlan plan = dry_run(options, {.data = kRanks}, {});
  Watched watched;
  test::run_ranks(kRanks, [&](Communicator& comm) {
    CallQueue calls;
    Connections connections = Connections::over(comm, {.data = kRanks}, {.times = &calls});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), plan.of_rank(comm.rank()).step);
    engine.initialize();
    testing::CountingSource source(options, comm.rank(), kRanks);
    StepObservers observers;
    StepTimer& timer = observers.add(std::make_unique<StepTimer>(workspace.stream(), calls));
    timer.need();
    for (int i = 0; i < kSteps; ++i) {
      const auto begun = StreamMoment::of_host();
      engine.begin_step(source, 0, &observers);
      const StepResult result = engine.next_result(Wait::kYes).value();
      const double seconds = StreamMoment::of_host().seconds_since(begun);
      observers.after_step({.step = result.step, .seconds = seconds, .metrics = result.metrics});
      if (comm.rank() != 0) continue;
      const MeasuredStep& step = timer.newest().value();
      CommsTable table;
      for (const MeasuredPart& part : step.parts) add_calls(table, part.calls);
      watched.wire_bytes.push_back(table.wire_bytes());
      watched.shares.push_back(times_of(step).sum() / seconds);
    }
  });
  return watched;
}

}  // namespace

TEST_CASE("the communication log has the bytes of the plan and of the formula", "[train]") {
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    const EngineOptions options = testing::options_of({.ranks = kRanks, .stage = stage});
    const Watched watched = train_watched(options);
    double planned = 0;
    const RunPlan plan = dry_run(options, {.data = kRanks}, {});
    for (const auto& [op, bytes] : plan.of_rank(0).wire_bytes.at("data")) planned += bytes;
    for (const int64_t bytes : watched.wire_bytes) CHECK(static_cast<double>(bytes) == planned);
    // Gradients to their owners, and weights back to everybody: once, at stage 3 for the forward
    // and for the backward.
    const double passes = stage == 3 ? 3 : 2;
    const auto numel = static_cast<double>(plan.parameters());
    const double formula = passes * numel * sizeof(float) * (kRanks - 1) / kRanks;
    CHECK(planned == Approx(formula).epsilon(0.1));  // some weights stay, and slices are padded
  }
}

TEST_CASE("the parts of a step make up the step", "[train]") {
  EngineOptions options = testing::options_of({.ranks = kRanks, .stage = 2, .micro_steps = 2});
  options.micro_batch *= 16;
  options.zero.wire.micro_steps = 2;
  const Watched watched = train_watched(options);
  const double share = bench::median(watched.shares);
  CHECK(share > 0.98);
  CHECK(share < 1.0001);
}

}  // namespace ds
