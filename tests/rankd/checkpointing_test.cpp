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

}  // namespace

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
