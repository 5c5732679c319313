// Limits of processes and threads: which one holds, in the files of either version of cgroups, and
// what is said where it is reached.
#include "core/tasks/task_limits.h"

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

class Groups {
 public:
  void add(const std::string& version, const std::string& name, const std::string& most, int used) {
    const fs::path folder = root_.path() / (version + name);
    fs::create_directories(folder);
    std::ofstream(folder / "pids.max") << most << "\n";
    std::ofstream(folder / "pids.current") << used << "\n";
  }
  CgroupFolders folders() const {
    return {(root_.path() / "v1").string(), (root_.path() / "v2").string()};
  }
  std::string file(const std::string& group) const {
    return (root_.path() / group / "pids.max").string();
  }
  void hide_used(const std::string& group) { fs::remove(root_.path() / group / "pids.current"); }

 private:
  const testing::TemporaryDirectory root_;
};

TEST_CASE("the limit of tasks is read in either version's files", "[core][task_limits]") {
  Groups groups;
  groups.add("v1", "/job", "28", 3);
  groups.add("v2", "/job", "64", 60);
  const auto first = cgroup_task_limit("8:pids:/job\n0::/job\n", groups.folders());
  REQUIRE(first);
  CHECK(first->name == "/job");
  CHECK(first->file == groups.file("v1/job"));
  CHECK(first->most == 28);
  CHECK(first->room() == 25);
  const auto second = cgroup_task_limit("4:memory:/old\n0::/job\n", groups.folders());
  REQUIRE(second);
  CHECK(second->most == 64);
  CHECK(second->room() == 4);
}

TEST_CASE("of the groups above the one with the least room holds", "[core][task_limits]") {
  Groups groups;
  groups.add("v2", "/slice/job/step", "max", 3);
  groups.add("v2", "/slice/job", "100", 50);
  groups.add("v2", "/slice", "1000", 990);
  const auto limit = cgroup_task_limit("0::/slice/job/step\n", groups.folders());
  REQUIRE(limit);
  CHECK(limit->name == "/slice");
  CHECK(limit->room() == 10);
  groups.add("v2", "/slice/job/step", "5", 7);  // lowered since
  CHECK(cgroup_task_limit("0::/slice/job/step\n", groups.folders())->room() == 0);
}

TEST_CASE("a container that is told its name from outside finds its limit at the root",
          "[core][task_limits]") {
  Groups groups;
  groups.add("v1", "", "32", 2);
  const auto limit = cgroup_task_limit("8:pids:/docker/0123\n", groups.folders());
  REQUIRE(limit);
  CHECK(limit->name == "/");
  CHECK(limit->most == 32);
}

TEST_CASE("where nothing is limited there is no limit", "[core][task_limits]") {
  Groups groups;
  groups.add("v2", "/job", "max", 3);
  groups.add("v2", "/old", "12", 3);
  groups.hide_used("v2/old");
  CHECK_FALSE(cgroup_task_limit("0::/job\n", groups.folders()));
  CHECK_FALSE(cgroup_task_limit("0::/old\n", groups.folders()));
  CHECK_FALSE(cgroup_task_limit("0::/not/there\n", groups.folders()));
  CHECK_FALSE(cgroup_task_limit("", groups.folders()));
}

TEST_CASE("the limit that is reached is named, with how to raise it", "[core][task_limits]") {
  const TaskLimit cgroup{"/job", "/sys/fs/cgroup/pids/job/pids.max", 28, 28};
  const TaskLimit user{"1000", "", 40, 38};
  CHECK_THAT(describe_reached({cgroup, std::nullopt}),
             Catch::Contains("cgroup /job allows 28 processes and threads (pids.max) and has 28") &&
                 Catch::Contains("write 84 into /sys/fs/cgroup/pids/job/pids.max") &&
                 Catch::Contains("TasksMax"));
  CHECK_THAT(
      describe_reached({std::nullopt, user}),
      Catch::Contains("user 1000 may have 40 processes and threads (ulimit -u) and has 38") &&
          Catch::Contains("`ulimit -u 80`"));
  TaskLimit roomy = cgroup;
  roomy.used = 5;
  CHECK_THAT(describe_reached({roomy, user}), Catch::StartsWith("user 1000"));
  CHECK_THAT(describe_reached({roomy, std::nullopt}),
             Catch::Contains("kernel.threads-max") && Catch::Contains("has 5"));
}

TEST_CASE("a thread that cannot be started is an error of the machine, no other is",
          "[core][task_limits]") {
  const auto refused = no_further_task(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  REQUIRE(refused);
  CHECK(refused->exit_code() == ExitCode::kClusterUnusable);
  CHECK_FALSE(
      no_further_task(std::system_error(std::make_error_code(std::errc::invalid_argument))));
}

TEST_CASE("threads are started, and as many as are required can be there at once",
          "[core][task_limits]") {
  std::atomic<int> done = 0;
  start_thread("a test", [&] { ++done; }).join();
  CHECK(done == 1);
  require_threads(5, "a test");
}

}  // namespace
}  // namespace ds
