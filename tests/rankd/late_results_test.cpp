// A run whose results come one step late, beside one whose results are there at once: the same
// weights, and everything that happens between two steps happens with no step under way.
#include <algorithm>

#include "comm/shm/comm.h"
#include "rankd/training.h"
#include "tests/rankd/deaf_control.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/processes.h"

using namespace ds;
using namespace ds::testing;

namespace {

using Lines = std::vector<std::string>;
// What comes each time that a rank looks for commands.
using Script = std::vector<std::vector<Command>>;

// Commands by a script, and writes down what it hears, a line each.
class ScriptedControl final : public DeafControl {
 public:
  ScriptedControl(const JobPlan& plan, Script script)
      : DeafControl(plan),
        script_(std::move(script)),
        heard_(fmt::format("{}/heard-{}", plan.run_dir, plan.rank)) {}

  void report_progress(const Progress& at) override {
    if (at.micro_step == 0) say("{} {}", at.phase, at.step);  // where it begins
  }
  void report_step(const StepMetrics& metrics) override { say("step {}", metrics.step); }
  void report_commit(const SavedTag& tag) override { say("commit {}", tag.step); }
  std::optional<Command> poll() override {
    if (look_ >= script_.size()) return std::nullopt;
    const std::vector<Command>& commands = script_[look_];
    if (handed_out_ < commands.size()) return commands[handed_out_++];
    ++look_;
    handed_out_ = 0;
    return std::nullopt;
  }

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    heard_ << fmt::format(format, std::forward<Args>(args)...) << std::endl;
  }

 private:
  const Script script_;
  size_t look_ = 0, handed_out_ = 0;
  std::ofstream heard_;
};

// Trains as processes. The last thing heard of each rank is its exit code or its error.
void train(JobPlan common, int results_late, const std::vector<Script>& scripts) {
  if (common.world_size > 1) common.shm_name = random_shm_name();
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < common.world_size; ++rank) {
    bodies.emplace_back([=] {
      JobPlan plan = common;
      plan.rank = plan.local_rank = rank;
      ScriptedControl control(plan,
                              scripts.empty() ? Script() : scripts.at(static_cast<size_t>(rank)));
      TcpListener listener;
      try {
        control.say("code {}", run_training(plan, control, listener, results_late));
      } catch (const ValidationError& error) {
        control.say("{}", error.what());
      }
    });
  }
  ds::test::check_all_done(ds::test::run_processes(bodies));
}

Lines heard_by(const JobPlan& plan, int rank) {
  std::ifstream file(fmt::format("{}/heard-{}", plan.run_dir, rank));
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

bool has(const Lines& lines, const std::string& line) {
  return std::ranges::find(lines, line) != lines.end();
}

const SmallRun kWithSavesAndEvaluations{.data = R"(, "validation_fraction": 0.2)",
                                        .train = R"("steps": 6, "save_every": 3, "eval_every": 4)"};

TEST_CASE("the order of a run whose results are there at once, and of one with late ones",
          "[rankd]") {
  const TemporaryDirectory folder;
  const std::string config = config_of(folder.path(), kWithSavesAndEvaluations);
  const JobPlan at_once = plan_of(folder.path() / "at-once", 1, config);
  const JobPlan late = plan_of(folder.path() / "late", 1, config);
  train(at_once, 0, {});
  CHECK(heard_by(at_once, 0) == Lines{"plan 0",   "load 0",     "train 0", "step 1",  "train 1",
                                      "step 2",   "train 2",    "step 3",  "save 3",  "commit 3",
                                      "train 3",  "evaluate 4", "step 4",  "train 4", "step 5",
                                      "train 5",  "evaluate 6", "step 6",  "save 6",  "commit 6",
                                      "export 6", "code 0"});
  train(late, 1, {});
  CHECK(heard_by(late, 0) == Lines{"plan 0",   "load 0",     "train 0", "train 1", "step 1",
                                   "train 2",  "step 2",     "step 3",  "save 3",  "commit 3",
                                   "train 3",  "evaluate 4", "step 4",  "train 4", "train 5",
                                   "step 5",   "evaluate 6", "step 6",  "save 6",  "commit 6",
                                   "export 6", "code 0"});
  CHECK(!weights_in(at_once.run_dir).empty());
  CHECK((weights_in(late.run_dir) == weights_in(at_once.run_dir)));
}

TEST_CASE("commands act at one edge on all ranks, one step later where results are late",
          "[rankd]") {
  constexpr int kRanks = 2;
  for (const int stage : {0, 3}) {
    CAPTURE(stage);
    const TemporaryDirectory folder;
    const std::string config =
        config_of(folder.path(), {.ranks = kRanks, .stage = stage, .train = R"("steps": 6)"});
    // The first rank sees the command when it begins step 2, the other much later.
    const std::vector<Script> scripts{{{}, {Command::kSaveNow}},
                                      {{}, {}, {}, {}, {}, {}, {}, {}, {Command::kSaveNow}}};
    std::string weights;
    for (const int late : {0, 1}) {
      CAPTURE(late);
      const JobPlan plan = plan_of(folder.path() / fmt::format("late-{}", late), kRanks, config);
      train(plan, late, scripts);
      for (int rank = 0; rank < kRanks; ++rank) {
        const Lines lines = heard_by(plan, rank);
        CAPTURE(rank, lines);
        CHECK(std::ranges::count_if(lines, [](const auto& l) { return l.starts_with("save"); }) ==
              2);
        CHECK(has(lines, fmt::format("save {}", 2 + late)));
        CHECK(lines.back() == "code 0");
      }
      CHECK(has(heard_by(plan, 0), fmt::format("commit {}", 2 + late)));
      if (late == 0) weights = weights_in(plan.run_dir);
      CHECK(!weights.empty());
      CHECK((weights_in(plan.run_dir) == weights));
    }
  }
}

TEST_CASE("a pause begins and ends with no step under way", "[rankd]") {
  const TemporaryDirectory folder;
  const std::string config = config_of(folder.path(), {.train = R"("steps": 4)"});
  const Script script{{}, {Command::kPause}, {}, {}, {Command::kSaveNow}, {}, {Command::kResume}};
  for (const int late : {0, 1}) {
    CAPTURE(late);
    const JobPlan plan = plan_of(folder.path() / fmt::format("late-{}", late), 1, config);
    train(plan, late, {script});
    const Lines lines = heard_by(plan, 0);
    CAPTURE(lines);
    const int at = 2 + late;
    const auto paused = std::ranges::find(lines, fmt::format("paused {}", at));
    REQUIRE(lines.end() - paused > 6);
    CHECK(*(paused - 1) == fmt::format("step {}", at));
    CHECK(Lines(paused + 1, paused + 6) ==
          Lines{fmt::format("save {}", at), fmt::format("commit {}", at),
                fmt::format("paused {}", at), fmt::format("train {}", at),
                fmt::format("train {}", at)});
  }
}

TEST_CASE("a run that is stopped goes on to the same weights, whoever of the two goes on",
          "[rankd]") {
  const TemporaryDirectory folder;
  const std::string config = config_of(folder.path(), {.train = R"("steps": 6)"});
  const JobPlan whole = plan_of(folder.path() / "whole", 1, config);
  train(whole, 0, {});
  for (const int late : {0, 1}) {
    CAPTURE(late);
    JobPlan plan = plan_of(folder.path() / fmt::format("stopped-{}", late), 1, config);
    train(plan, late, {{{}, {Command::kStopAndSave}}});
    const Lines stopped = heard_by(plan, 0);
    CAPTURE(stopped);
    CHECK(has(stopped, fmt::format("commit {}", 2 + late)));
    CHECK(stopped.back() == "code 75");
    CHECK(!has(stopped, fmt::format("train {}", 2 + late)));
    plan.epoch = 2;
    train(plan, 1 - late, {});
    CHECK(heard_by(plan, 0).back() == "code 0");
    CHECK(has(heard_by(plan, 0), fmt::format("train {}", 2 + late)));
    CHECK((weights_in(plan.run_dir) == weights_in(whole.run_dir)));
  }
}

TEST_CASE("a step that is not finite ends the run with its own number", "[rankd]") {
  const TemporaryDirectory folder;
  const std::string config = config_of(folder.path(), {.train = R"("steps": 6)", .rate = "1e30"});
  std::vector<std::string> errors;
  for (const int late : {0, 1}) {
    const JobPlan plan = plan_of(folder.path() / fmt::format("late-{}", late), 1, config);
    train(plan, late, {});
    errors.push_back(heard_by(plan, 0).back());
  }
  CHECK_THAT(errors[0], Catch::StartsWith("step 2: loss ") &&
                            Catch::Contains("the weights are those of step 1"));
  CHECK(errors[1] == errors[0]);
}

}  // namespace
