// A step that is not finite, made once more: what is named, that all ranks name the same, and that
// nothing of the run is changed by it.
#include "train/watch/first_bad_number.h"

#include <cmath>

#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/plan/dry_run.h"

namespace ds {
namespace {

using namespace testing;

struct Change {
  std::string parameter;
  int64_t element = -1;  // -1: all
  float value = 0;
  bool scales = false;  // multiplies by the value
};

void change(Engine& engine, const std::vector<Change>& changes) {
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    for (const ShardField& field : part.fields) {
      for (const Change& one : changes) {
        if (engine.store().spec(field.param).name != one.parameter) continue;
        auto* const values = part.master.data<float>() + field.offset;
        for (int64_t i = 0; i < field.numel; ++i) {
          if (one.element >= 0 && field.param_begin + i != one.element) continue;
          values[i] = one.scales ? values[i] * one.value : one.value;
        }
      }
    }
  });
  engine.store().state().restore_from_owned();
}

// Token 28 for one rank and micro-step, others have smaller ones.
class MarkedSource final : public BatchSource {
 public:
  MarkedSource(const EngineOptions& options, int rank, int ranks, int marked_rank, int marked_step)
      : inner_(options, rank, ranks), marked_step_(rank == marked_rank ? marked_step : -1) {}
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    inner_.fill(step, micro_step, batch);
    if (!batch.has(batch_field::kTokens)) return;
    const std::span<int32_t> tokens = batch.values<int32_t>(batch_field::kTokens);
    for (int32_t& token : tokens) token %= 28;
    if (micro_step == marked_step_) tokens[5] = 28;
  }
  int64_t first_sample(int micro_step) const override { return inner_.first_sample(micro_step); }
  void on_use(int64_t /*step*/, int /*micro_step*/) override { ++used; }
  int used = 0;

 private:
  CountingSource inner_;
  const int marked_step_;
};

struct Case {
  Setting setting;
  std::vector<Change> changes;  // after a good step
  int marked_rank = 0;
  int marked_step = 0;
};

struct Seen {
  std::vector<BadNumberReport> reports;  // by rank
  Outcome before, after;
  std::vector<int> progress;
  bool goes_on = true;
};

Seen look(const Case& of) {
  const Setting& setting = of.setting;
  const EngineOptions options = options_of(setting);
  const MeshSizes sizes = mesh_of(setting);
  const RunPlan plan = dry_run(options, sizes, {});
  Seen seen;
  seen.reports.resize(to_size(setting.ranks));
  std::mutex mutex;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, sizes);
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    resources.results_late = setting.results_late;
    Engine engine(options, resources, plan.of_rank(comm.rank()).step);
    engine.initialize();
    MarkedSource source(options, engine.mesh().coordinate(Axis::kData), sizes.data, of.marked_rank,
                        of.marked_step);
    change(engine, of.changes);
    collect(engine, seen.before, mutex);
    const int64_t first = engine.step();
    CHECK_THROWS_AS(train_until(engine, source, first + 2), NotFinite);
    const int used = source.used;
    std::vector<int> progress;
    const BadNumberReport report =
        find_bad_number(engine, source, [&](int micro_step) { progress.push_back(micro_step); });
    CHECK(source.used == used);
    CHECK(engine.step() == first);
    CHECK(engine.begun() == first);
    collect(engine, seen.after, mutex);
    // As if it had not been: the step is bad in the same way once more.
    CHECK_THROWS_AS(train_until(engine, source, first + 2), NotFinite);
    const std::lock_guard lock(mutex);
    seen.reports[to_size(comm.rank())] = report;
    seen.progress = progress;
  });
  REQUIRE(seen.before.state.size() == seen.after.state.size());
  for (const auto& [name, values] : seen.before.state) {
    const std::vector<float>& left = seen.after.state.at(name);
    INFO(name);
    CHECK(std::memcmp(values.data(), left.data(), values.size() * sizeof(float)) == 0);
  }
  for (const BadNumberReport& report : seen.reports) {
    CHECK(to_json(report) == to_json(seen.reports.front()));
  }
  return seen;
}

const BadNumber& first_of(const Seen& seen) { return seen.reports.front().first.value(); }

}  // namespace

TEST_CASE("a weight that is not finite is named, with its element", "[train]") {
  for (const int stage : {0, 1, 2, 3}) {
    for (const int late : {0, 1}) {
      CAPTURE(stage, late);
      const Seen seen = look(
          {.setting =
               {.ranks = 2, .stage = stage, .micro_steps = 2, .results_late = late, .dropout = 0.1},
           .changes = {{.parameter = "transformer.h.1.mlp.c_fc.weight",
                        .element = 3 * 128 + 17,
                        .value = INFINITY}}});
      const BadNumber& bad = first_of(seen);
      CHECK(bad.kind == NumberKind::kWeight);
      CHECK(bad.name == "transformer.h.1.mlp.c_fc.weight");
      CHECK(bad.module == "transformer.h.1.mlp.c_fc");
      CHECK_FALSE(bad.in_backward);
      CHECK(bad.place == "[3, 17]");
      CHECK(bad.value == "inf");
      CHECK(bad.bad == 1);
      CHECK(seen.reports.front().rank == 0);
      CHECK(seen.reports.front().ranks == std::vector<int>{0, 1});
      CHECK(seen.reports.front().step == 1);
      CHECK_FALSE(seen.reports.front().sums_are_finite);
      CHECK(seen.progress == std::vector<int>{0, 1});
      CHECK_THAT(in_words(seen.reports.front()),
                 Catch::Contains("the first bad number is inf in the weight "
                                 "transformer.h.1.mlp.c_fc.weight (forward pass), rank 0, "
                                 "micro-step 0: element [3, 17] of [32, 128], 1 of 4096"));
    }
  }
}

TEST_CASE("of stages the one is named that a number comes from, whoever else gets it", "[train]") {
  for (const auto& [block, rank] : {std::pair{0, 0}, std::pair{1, 1}}) {
    CAPTURE(block);
    const std::string name = fmt::format("transformer.h.{}.mlp.c_fc.weight", block);
    const Seen seen = look({.setting = {.ranks = 2, .pipe = 2, .micro_steps = 2},
                            .changes = {{.parameter = name, .element = 7, .value = INFINITY}}});
    CHECK(first_of(seen).name == name);
    CHECK(first_of(seen).micro_step == 0);
    CHECK_FALSE(first_of(seen).in_backward);
    CHECK(seen.reports.front().rank == rank);
    CHECK(seen.reports.front().ranks == std::vector<int>{0, 1});
  }
}

// Only the sum of both is too large for fp16, and only one rank has that token, in its second
// micro-step.
TEST_CASE("what one rank's sample makes is that rank's and its micro-step's", "[train]") {
  for (const int stage : {0, 3}) {
    CAPTURE(stage);
    const Seen seen = look(
        {.setting = {.ranks = 2,
                     .stage = stage,
                     .dtype = DType::kF16,
                     .micro_steps = 2,
                     .loss_scale = loss_scale_rule(
                         {.initial_scale_power = 0, .hysteresis = 1, .min_loss_scale = 1}),
                     .gradient_factor = 1e-4},
         .changes = {{.parameter = "transformer.wte.weight", .element = 28 * 32, .value = 65504},
                     {.parameter = "transformer.wpe.weight", .element = 5 * 32, .value = 100}},
         .marked_rank = 1,
         .marked_step = 1});
    const BadNumber& bad = first_of(seen);
    CHECK(seen.reports.front().rank == 1);
    CHECK(bad.micro_step == 1);
    CHECK(bad.kind == NumberKind::kOutput);
    CHECK(bad.name == "embedding");
    CHECK(bad.place == "[5, 0]");
    CHECK(seen.reports.front().ranks == std::vector<int>{1});
  }
}

// Forward, the one is undone by the other; backward, they multiply what comes by 1e37.
TEST_CASE("a gradient that overflows is named in the backward pass", "[train]") {
  for (const bool recomputes : {false, true}) {
    for (const int stage : {0, 3}) {
      CAPTURE(stage, recomputes);
      Setting setting{.ranks = 2, .stage = stage, .micro_steps = 2, .gradient_factor = 1e9};
      if (recomputes) setting.recomputed.recompute.part = RecomputedPart::kBlock;
      const Seen seen =
          look({.setting = setting,
                .changes = {
                    {.parameter = "transformer.h.1.ln_1.weight", .value = 1e-37F, .scales = true},
                    {.parameter = "transformer.h.1.attn.c_attn.weight",
                     .value = 1e37F,
                     .scales = true}}});
      const BadNumber& bad = first_of(seen);
      CHECK(bad.in_backward);
      CHECK(bad.kind == NumberKind::kInputGradient);
      CHECK(bad.name == "linear");
      CHECK(bad.module == "transformer.h.1");
      CHECK(bad.micro_step == 0);
      CHECK_THAT(in_words(seen.reports.front()),
                 Catch::Contains("in the gradient of the input of linear in transformer.h.1 "
                                 "(backward pass)"));
    }
  }
}

TEST_CASE("a step that is finite when it is made again is told as that", "[train]") {
  BadNumberReport report{.step = 3, .first = std::nullopt, .ranks = {}};
  CHECK_THAT(in_words(report), Catch::Contains("finite everywhere"));
  CHECK_THAT(to_json(report), Catch::Contains("\"found\":false"));
  report.sums_are_finite = false;
  CHECK_THAT(in_words(report), Catch::Contains("but not the sums"));
}

}  // namespace ds
