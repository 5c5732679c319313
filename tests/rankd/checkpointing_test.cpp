#include "rankd/checkpointing.h"

#include "core/memory_file_system.h"
#include "rankd/workspace.h"
#include "tests/rankd/small_engine.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace ds {
namespace {

using namespace testing;

// What each rank's save ends with, where rank r has made `steps[r]` steps.
std::vector<std::string> save_at(const std::vector<int64_t>& steps, TagAgreement tags, FileSystem& files) {
  std::vector<std::string> ends(steps.size());
  test::run_ranks(static_cast<int>(steps.size()), [&](Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    const EngineOptions options = options_of({.ranks = comm.size()});
    Workspace workspace(Device::cpu(), 1, comm);
    Engine engine(options, workspace.seat(), std::nullopt);
    engine.initialize();
    JobPlan plan;
    plan.rank = comm.rank();
    plan.world_size = comm.size();
    plan.run_dir = "/run";
    Checkpointing checkpoints(engine, files, plan, 0, nullptr, tags);
    engine.restore_step(steps[rank]);
    try {
      ends[rank] = checkpoints.save().tag;
    } catch (const ValidationError& error) {
      ends[rank] = fmt::format("refused: {}", error.what());
    } catch (const IoError& error) {
      ends[rank] = "failed";
    }
  });
  return ends;
}

// One epoch of two ranks, which saves at those steps: where it began.
std::string began_at(FileSystem& files, int64_t epoch, ResumeMode resume, const std::vector<int64_t>& saves) {
  std::string out;
  test::run_ranks(2, [&](Communicator& comm) {
    const EngineOptions options = options_of({.ranks = comm.size()});
    Workspace workspace(Device::cpu(), 1, comm);
    Engine engine(options, workspace.seat(), std::nullopt);
    JobPlan plan;
    plan.rank = comm.rank();
    plan.world_size = comm.size();
    plan.run_dir = "/run";
    plan.epoch = epoch;
    plan.resume = resume;
    plan.oldest_tag_epoch = resume == ResumeMode::kNever ? epoch : 0;
    Checkpointing checkpoints(engine, files, plan, 0);
    std::string began;
    try {
      began = fmt::format("step {}", checkpoints.load(std::nullopt));
    } catch (const ValidationError& refusal) {
      began = refusal.what();
    }
    if (comm.rank() == 0) out = began;
    if (!began.starts_with("step ")) return;
    for (const int64_t step : saves) {
      engine.restore_step(step);
      checkpoints.save();
    }
  });
  return out;
}

}  // namespace

TEST_CASE("what began anew is gone on with later, and not the run before it", "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {10, 20}) == "step 0");
  CHECK(began_at(files, 2, ResumeMode::kAuto, {30}) == "step 20");
  CHECK(began_at(files, 3, ResumeMode::kNever, {5}) == "step 0");
  CHECK(began_at(files, 4, ResumeMode::kAuto, {}) == "step 5");
  CHECK(began_at(files, 5, ResumeMode::kAuto, {8}) == "step 5");
  CHECK(began_at(files, 6, ResumeMode::kRequired, {}) == "step 8");
  CHECK(list_tags(files, "/run/checkpoints").tags.back().begun_in == 1);
  // Nothing of it can be read: the run before it is no way out.
  for (const std::string tag : {"global_step5", "global_step8"}) {
    files.truncate("/run/checkpoints/" + tag + "/rank-00001.pieces", 9);
  }
  CHECK_THAT(began_at(files, 7, ResumeMode::kAuto, {}), Catch::Contains("no tag can be loaded"));
  CHECK(began_at(files, 8, ResumeMode::kNever, {}) == "step 0");
}

TEST_CASE("ranks save under one tag, or say that they do not", "[rankd]") {
  MemoryFileSystem files;
  for (const TagAgreement tags : {TagAgreement::kFail, TagAgreement::kWarn, TagAgreement::kIgnore}) {
    MemoryFileSystem own;
    CHECK(save_at({3, 3}, tags, own) == std::vector<std::string>(2, "global_step3"));
  }
  const std::vector<std::string> refused = save_at({3, 3, 4}, TagAgreement::kFail, files);
  const std::string text = "refused: the ranks are about to save under different tags: rank 0 under "
                           "global_step3, rank 2 under global_step4 (checkpoint.tag_validation is Fail)";
  CHECK(refused == std::vector<std::string>(3, text));
  CHECK(files.list("/run/checkpoints").size() == 1);  // its epoch, and no tag
  // Without a refusal the save is tried, and is not committed, because a rank's file is missing.
  for (const TagAgreement tags : {TagAgreement::kWarn, TagAgreement::kIgnore}) {
    MemoryFileSystem own;
    CHECK(save_at({3, 4}, tags, own) == std::vector<std::string>(2, "failed"));
    CHECK(list_tags(own, "/run/checkpoints").tags.empty());
  }
}

}  // namespace ds
