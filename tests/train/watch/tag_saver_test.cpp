#include "train/watch/tag_saver.h"

#include <cmath>
#include <limits>

#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/train/heard_reports.h"
#include "tests/train/runs/small_engine.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;
using Lines = std::vector<std::string>;

constexpr int64_t kRoom = int64_t{1} << 40;

// One rank whose engine makes no steps, and its saver.
struct Saving {
  explicit Saving(Communicator& comm, MemoryFileSystem& disk, const FolderFrame& frame,
                  std::function<void()> pause, bool at_end, const EngineOptions& options)
      : connections(Connections::over(comm, {.data = comm.size()})),
        workspace(Device::cpu(), 1, connections.peers()),
        engine(options, workspace.resources(), std::nullopt),
        checkpoints(engine, disk, plan, {}),
        saver(engine, checkpoints, heard,
              {.rank = 0,
               .schedule = SaveSchedule(2, 10),
               .at_end = at_end,
               .model_folder = "/run/final",
               .frame = frame,
               .pause = std::move(pause)}) {
    engine.initialize();
  }

  void edge(int64_t step) {
    engine.restore_step(step);
    saver.after_step({.step = step, .seconds = 10});
    saver.at_edge(step);
  }

  static JobPlan plan_in_run() {
    JobPlan plan;
    plan.run_dir = "/run";
    return plan;
  }

  const JobPlan plan = plan_in_run();
  Connections connections;
  Workspace workspace;
  Engine engine;
  Checkpointing checkpoints;
  HeardReports heard;
  TagSaver saver;
};

// The body gets a rank that saves to `disk`; `pause` is what comes between two tries at the end.
void with_saver(MemoryFileSystem& disk, const std::function<void()>& pause,
                const std::function<void(Saving&)>& body, bool at_end = true,
                const EngineOptions& options = options_of({})) {
  test::run_ranks(1, [&](Communicator& comm) {
    disk.make_directories("/run");
    const FolderFrame frame;
    Saving saving(comm, disk, frame, pause, at_end, options);
    body(saving);
  });
}

void fill(MemoryFileSystem& disk) { disk.set_capacity(0); }

const std::function<void()> kNever = [] { throw ValidationError("nobody waits here"); };

TEST_CASE("a tag is saved when it is due or asked for, and not twice at an edge", "[train]") {
  MemoryFileSystem disk;
  with_saver(disk, kNever, [&](Saving& saving) {
    saving.edge(1);
    CHECK(saving.heard.take().empty());
    CHECK_FALSE(saving.saver.needs_edge(1));
    CHECK(saving.saver.needs_edge(2));
    saving.edge(2);
    CHECK_FALSE(saving.saver.needs_edge(2));  // it is done
    CHECK(saving.heard.take() == Lines{"save 2.0", "commit global_step2"});
    saving.engine.restore_step(4);
    saving.saver.save_and_go_on();
    CHECK(saving.heard.take() == Lines{"save 4.0", "commit global_step4"});
    saving.edge(4);
    CHECK(saving.heard.take().empty());
  });
}

TEST_CASE("the newest steps go with a tag", "[train]") {
  MemoryFileSystem disk;
  with_saver(disk, kNever, [&](Saving& saving) {
    saving.heard.steps.emplace_back().values.set("loss", 1.5);
    saving.edge(2);
    Checkpointing again(saving.engine, disk, saving.plan, {});
    again.load(std::nullopt);
    CHECK_THAT(again.restored_note(), Catch::Contains(R"("loss": 1.5)"));
  });
}

TEST_CASE("what is saved to be kept stays, and is what is exported", "[train]") {
  MemoryFileSystem disk;
  with_saver(disk, kNever, [&](Saving& saving) {
    saving.checkpoints.set_best("the best");
    saving.edge(2);
    saving.engine.restore_step(3);
    CHECK(saving.saver.save_and_keep());
    for (const int64_t step : {4, 6, 8}) saving.edge(step);
    CHECK(disk.exists("/run/checkpoints/global_step3"));
    Checkpointing again(saving.engine, disk, saving.plan, {});
    again.load(std::nullopt);
    CHECK(again.restored_best() == "the best");
    CHECK(again.keep_always("global_step3"));
    CHECK_FALSE(again.keep_always("global_step5"));
    fill(disk);
    saving.engine.restore_step(9);
    CHECK_FALSE(saving.saver.save_and_keep());
  });
}

TEST_CASE("a save that fails is a warning, and is tried again", "[train]") {
  MemoryFileSystem disk;
  with_saver(disk, kNever, [&](Saving& saving) {
    fill(disk);
    saving.edge(2);
    const Lines said = saving.heard.take();
    REQUIRE(said.size() == 2);
    CHECK(said[0] == "save 2.0");
    CHECK_THAT(said[1], Catch::StartsWith("warning: ") &&
                            Catch::EndsWith("; training goes on, and it is tried again soon"));
    disk.set_capacity(kRoom);
    CHECK(saving.saver.needs_edge(3));
    saving.edge(3);
    CHECK(saving.heard.take() == Lines{"save 3.0", "commit global_step3"});
    fill(disk);
    saving.edge(4);
    saving.edge(6);
    CHECK_THROWS_AS(saving.edge(8), IoError);
  });
}

// An engine in fp16 whose gradients overflow until its scale has come down to what the model bears.
EngineOptions overflowing(double scale) {
  return options_of(
      {.dtype = DType::kF16,
       .loss_scale = dynamic_scale_rule({.init_scale = scale, .min_scale = 1, .hysteresis = 1})});
}

// Trains to that step, with its edges; what was heard.
Lines trained(Saving& saving, int64_t until) {
  CountingSource source(saving.engine.options(), 0, 1);
  while (saving.engine.step() < until) {
    const StepResult result = train_step(saving.engine, source);
    saving.saver.after_step({.step = result.step, .seconds = 10});
    if (saving.saver.needs_edge(result.step)) saving.saver.at_edge(result.step);
  }
  return saving.heard.take();
}

std::vector<int64_t> skipped_tags(MemoryFileSystem& disk) {
  std::vector<int64_t> out;
  for (const CommittedTag& tag : list_tags(disk, "/run/checkpoints").tags) {
    if (tag.skipped) out.push_back(tag.step);
  }
  return out;
}

TEST_CASE("a save that is due after a step that changed nothing waits for one that does",
          "[train]") {
  MemoryFileSystem disk;
  with_saver(
      disk, kNever,
      [&](Saving& saving) {
        CHECK(trained(saving, 3).empty());  // 2 was due
        REQUIRE(saving.engine.scaling().skipped == 3);
        REQUIRE(saving.saver.needs_edge(4));
        saving.saver.save_and_go_on();  // who asks for it gets it
        CHECK(saving.heard.take() == Lines{"save 3.0", "commit global_step3"});
        CHECK(skipped_tags(disk) == std::vector<int64_t>{3});
        Lines said;
        while (said.empty() && saving.engine.step() < 30)
          said = trained(saving, saving.engine.step() + 1);
        REQUIRE(saving.engine.skipped_last() == false);
        const int64_t first = saving.engine.scaling().skipped + 1;
        CHECK(saving.engine.step() == first);
        REQUIRE(said.size() == 2);
        CHECK(said[0] == fmt::format("save {}.0", first));
        CHECK(skipped_tags(disk) == std::vector<int64_t>{3});
      },
      true, overflowing(0x1p28));
}

TEST_CASE("a run in which no step has changed the weights has not trained", "[train]") {
  MemoryFileSystem disk;
  for (const bool at_end : {true, false}) {
    with_saver(
        disk, kNever,
        [&](Saving& saving) {
          trained(saving, 3);
          CHECK_THROWS_WITH(saving.saver.before_exit(RunEnd::kDone),
                            Catch::StartsWith("none of the 3 steps has changed the weights"));
          CHECK_FALSE(disk.exists("/run/final"));
          saving.saver.before_exit(RunEnd::kStopped);  // it may go on
        },
        at_end, overflowing(0x1p40));
  }
}

TEST_CASE("numbers that are not finite get into no tag, and end the run", "[train]") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {std::nan(""), infinity, -infinity, 65520.0}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      CAPTURE(bad, static_cast<int>(dtype));
      MemoryFileSystem disk;
      with_saver(
          disk, kNever,
          [&](Saving& saving) {
            saving.edge(2);
            saving.heard.take();
            set_first_weight(saving.engine, static_cast<float>(bad));
            if (std::isfinite(bad) && dtype != DType::kF16) {
              saving.edge(4);
              CHECK(saving.heard.take().back() == "commit global_step4");
              return;
            }
            CHECK_THROWS_WITH(saving.edge(4),
                              Catch::Contains("after step 4 are not all finite: rank 0 on ") &&
                                  Catch::Contains(": element 0 of the ") &&
                                  Catch::Contains("global_step4 was not saved"));
            CHECK_THROWS_AS(saving.saver.before_exit(RunEnd::kDone), ValidationError);
            CHECK_FALSE(disk.exists("/run/final"));
            CHECK(list_tags(disk, "/run/checkpoints").tags.size() == 1);
            CHECK(disk.list("/run/checkpoints").size() == 3);  // with epoch and latest
          },
          true, options_of({.dtype = dtype}));
    }
  }
}

TEST_CASE("a run that is stopped saves, one that is done also exports its model", "[train]") {
  MemoryFileSystem disk;
  with_saver(disk, kNever, [&](Saving& saving) {
    saving.engine.restore_step(5);
    saving.saver.before_exit(RunEnd::kStopped);
    CHECK(saving.heard.take() == Lines{"save 5.0", "commit global_step5"});
    CHECK(!disk.exists("/run/final/model.safetensors"));
    saving.saver.before_exit(RunEnd::kDone);
    CHECK(saving.heard.take() == Lines{"export 5.0"});  // it is saved
    CHECK(disk.exists("/run/final/model.safetensors"));
  });
}

TEST_CASE("a run that shall leave nothing saves only when it is stopped", "[train]") {
  MemoryFileSystem disk;
  const auto ends = [](Saving& saving) {
    saving.engine.restore_step(5);
    saving.saver.before_exit(RunEnd::kDone);
    CHECK(saving.heard.take().empty());
    saving.saver.before_exit(RunEnd::kStopped);
    CHECK(saving.heard.take() == Lines{"save 5.0", "commit global_step5"});
  };
  with_saver(disk, kNever, ends, false);
  CHECK(!disk.exists("/run/final/model.safetensors"));
}

TEST_CASE("at the end a full disk is waited for, but not for ever", "[train]") {
  MemoryFileSystem disk;
  int pauses = 0;
  const auto pause = [&] {
    if (++pauses == 2) disk.set_capacity(kRoom);
  };
  with_saver(disk, pause, [&](Saving& saving) {
    saving.engine.restore_step(10);
    fill(disk);
    saving.saver.before_exit(RunEnd::kStopped);
    CHECK(pauses == 2);
    const Lines said = saving.heard.take();
    REQUIRE(said.size() == 5);  // one warning, and the phase at each try
    CHECK_THAT(said[1], Catch::EndsWith("; it is tried again for half a minute"));
    CHECK(said.back() == "commit global_step10");
    saving.engine.restore_step(11);
    fill(disk);
    CHECK_THROWS_AS(saving.saver.before_exit(RunEnd::kStopped), IoError);
    CHECK(pauses == 2 + TagSaver::kTriesAtTheEnd - 1);
  });
}

}  // namespace
}  // namespace ds
