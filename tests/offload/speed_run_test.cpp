// Measurements of speed: what they count, and that nothing is left in the folder, also meanwhile.
#include "offload/tuning/speed_run.h"

#include <filesystem>

#include "core/files/file.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

SpeedPlan plan_of(const testing::TemporaryDirectory& folder) {
  return {.folders = {folder.path().string()}, .io_bytes = 1 << 16, .loops = 3, .warmups = 1};
}

}  // namespace

TEST_CASE("the loops that count are measured, and the folder is empty meanwhile", "[offload]") {
  const testing::TemporaryDirectory folder;
  SpeedPlan plan = plan_of(folder);
  plan.workers = 2;
  plan.validate = true;
  SpeedRun run(plan);
  CHECK(run.bytes_per_loop() == 2 << 16);
  CHECK(run.read({.io_parallel = 2}).task.size() == 3);  // of a file that nobody wrote before
  CHECK(std::filesystem::is_empty(folder.path()));
  plan.include_warmups = true;
  plan.new_file_each_loop = true;
  plan.flush_page_cache = true;
  SpeedRun all(plan);
  const SpeedTimes times = all.write({});
  CHECK(times.task.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(times.end_to_end[i] >= times.task[i]);
  CHECK(all.read({}).end_to_end.size() == 4);
}

TEST_CASE("every engine of the machine writes and reads", "[offload]") {
  const testing::TemporaryDirectory folder;
  SpeedPlan plan = plan_of(folder);
  plan.engine = EngineKind::kThreads;
  SpeedRun run(plan);
  CHECK(run.write({}).task.size() == 3);
  CHECK(run.engine_name() == "threads");
}

TEST_CASE("a folder that is none, and one with too little room, are refused", "[offload]") {
  const testing::TemporaryDirectory folder;
  SpeedPlan plan = plan_of(folder);
  plan.folders.push_back((folder.path() / "none").string());
  CHECK_THROWS_AS(SpeedRun(plan), InputMissing);
  plan = plan_of(folder);
  plan.io_bytes = int64_t{1} << 60;
  CHECK_THROWS_WITH(SpeedRun(plan), Catch::Contains("are free; choose a smaller --io-size"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the median is the speed", "[offload]") {
  CHECK(speed_of(100, {}) == 0);
  CHECK(speed_of(100, {4, 1, 2}) == 50);
  CHECK(speed_of(100, {1, 4, 2, 3}) == 40);
}

}  // namespace ds
