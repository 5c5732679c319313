// The folder of a job's swap files: made, shared by its ranks, gone at the end; what dead processes
// left is removed, and what lives, is foreign or is no swap file stays.
#include "offload/swap_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "offload/swap_file.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

SwapOwner owner_of(const std::string& job, int rank = 0) {
  return {.job = job, .epoch = 1, .rank = rank, .world = 2};
}

// As a killed process leaves it: the lock is gone, the file is not.
void leave_swap_file(const std::string& folder, const SwapOwner& owner) {
  fs::create_directories(folder);
  const SwapFile file(folder, owner, 4096);
  fs::copy_file(file.path(), file.path() + ".kept");
  fs::rename(file.path() + ".kept", folder + "/rank-9.swap");
}

TEST_CASE("ranks share the folder of their job, and the last removes it", "[offload]") {
  const testing::TemporaryDirectory root;
  std::optional<SwapDirectory> first(std::in_place, root.path().string(), owner_of("a"));
  std::optional<SwapDirectory> second(std::in_place, root.path().string(), owner_of("a", 1));
  CHECK(first->path() == second->path());
  struct stat info {};
  REQUIRE(::stat(first->path().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  const std::string path = first->path();
  first.reset();
  CHECK(fs::exists(path));
  second.reset();
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a root that is no directory is refused by the key that names it", "[offload]") {
  CHECK_THROWS_WITH(SwapDirectory("/no/such/disk", owner_of("a")),
                    Catch::Contains("nvme_path /no/such/disk: no such directory"));
}

TEST_CASE("what the dead left is removed, what lives or is none of ours stays", "[offload]") {
  const testing::TemporaryDirectory root;
  const std::string dead = (root.path() / "dslaunch-state-dead").string();
  const std::string alive = (root.path() / "dslaunch-state-alive").string();
  const std::string other = (root.path() / "data").string();
  leave_swap_file(dead, owner_of("dead"));
  leave_swap_file(other, owner_of("dead"));  // in no folder of ours
  const SwapDirectory living_folder(root.path().string(), owner_of("alive"));
  const SwapFile living(alive, owner_of("alive"), 4096);
  leave_swap_file(dead, owner_of("dead"));
  std::ofstream(alive + "/notes.swap") << "not a swap file";
  const SwapDirectory folder(root.path().string(), owner_of("new"));
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(living.path()));
  CHECK(fs::exists(alive + "/notes.swap"));
  CHECK(fs::exists(other + "/rank-9.swap"));
}

}  // namespace
}  // namespace ds
