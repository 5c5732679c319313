// The swap file of a rank: who may have it, what it replaces, and that a disk without room is known
// at the start.
#include "offload/swap_file.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "core/status/failpoint.h"
#include "tests/offload/swapping.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/processes.h"

namespace ds {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

const SwapOwner kOwner{.job = "night-run", .epoch = 3, .rank = 1, .world = 2};

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST_CASE("a swap file is its owner's alone, has its room, and is gone at the end", "[offload]") {
  const testing::TemporaryDirectory directory;
  const fs::path path = directory.path() / "night-run.rank-1.swap";
  {
    const SwapFile file(directory.path(), kOwner, 100'000);
    CHECK(file.path() == path);
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777U) == 0600);
    CHECK(info.st_size == 4096 + 100'000);
    CHECK(info.st_blocks * 512 >= 4096 + 100'000);
    const SwapFileHeader header =
        parse_swap_file_header(test::file_bytes(path, 0, 4096), path.string());
    CHECK(header.owner == kOwner);
    CHECK(header.pid == ::getpid());
    CHECK(header.file_bytes == file.file_bytes());
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("a living process keeps its file, and is named", "[offload]") {
  const testing::TemporaryDirectory directory;
  const SwapFile file(directory.path(), kOwner, 8192);
  SwapOwner other = kOwner;
  other.epoch = 4;
  CHECK_THROWS_WITH(
      SwapFile(directory.path(), other, 8192),
      Contains(file.path() + " is in use by job night-run, generation 3, rank 1 of 2, process " +
               std::to_string(::getpid())));
  CHECK_NOTHROW(parse_swap_file_header(test::file_bytes(file.path(), 0, 4096), "x"));
  other.rank = 0;
  CHECK_NOTHROW(SwapFile(directory.path(), other, 8192));
  CHECK(fs::exists(file.path()));  // another rank, of a later epoch, leaves it alone
  other = kOwner;
  other.job = "day-run";
  CHECK(SwapFile(directory.path(), other, 8192).path() ==
        (directory.path() / "day-run.rank-1.swap").string());
}

TEST_CASE("what dead ranks of an epoch before left goes, also where nobody takes their place",
          "[offload]") {
  const testing::TemporaryDirectory directory;
  const auto dies_as = [&](const std::string& job, int64_t epoch, int rank) {
    const auto dies = [&] {
      const SwapFile file(directory.path(), {.job = job, .epoch = epoch, .rank = rank, .world = 9},
                          65'536);
      ::raise(SIGKILL);
    };
    REQUIRE(WTERMSIG(test::run_processes({dies})[0].status) == SIGKILL);
  };
  dies_as("night-run", 2, 8);  // of more ranks than there are now
  dies_as("night-run", 3, 0);  // of this epoch: its own start is under way, or its own end
  dies_as("day-run", 1, 5);
  write_text(directory.path() / "night-run.rank-7.swap", "a thesis");
  const SwapFile file(directory.path(), kOwner, 8192);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(directory.path()))
    left.insert(entry.path().filename().string());
  CHECK(left == std::set<std::string>{"day-run.rank-5.swap", "night-run.rank-0.swap",
                                      "night-run.rank-1.swap", "night-run.rank-7.swap"});
}

TEST_CASE("what a dead process left is replaced", "[offload]") {
  const testing::TemporaryDirectory directory;
  const fs::path path = directory.path() / "night-run.rank-1.swap";
  const auto dies = [&] {
    const SwapFile file(directory.path(), kOwner, 65'536);
    ::raise(SIGKILL);
  };
  CHECK(WTERMSIG(test::run_processes({dies})[0].status) == SIGKILL);
  REQUIRE(fs::file_size(path) == 4096 + 65'536);
  {
    const SwapFile file(directory.path(), kOwner, 8192);
    CHECK(fs::file_size(path) == 4096 + 8192);
  }
  CHECK(!fs::exists(path));
  // As far as a process may come that dies while it makes the file; and one with a damaged header.
  for (const std::string& left : {std::string(), std::string(100, '\0'), std::string(9000, '\0'),
                                  "DSSWAPFL" + std::string(4088, 'x')}) {
    write_text(path, left);
    CHECK_NOTHROW(SwapFile(directory.path(), kOwner, 8192));
  }
}

TEST_CASE("what is no swap file stays", "[offload]") {
  const testing::TemporaryDirectory directory;
  const fs::path path = directory.path() / "night-run.rank-1.swap";
  write_text(path, "a thesis");
  CHECK_THROWS_AS(SwapFile(directory.path(), kOwner, 8192), DataError);
  CHECK_THROWS_WITH(SwapFile(directory.path(), kOwner, 8192),
                    Contains("is no swap file and is not removed"));
  CHECK(fs::file_size(path) == 8);
  fs::rename(path, directory.path() / "thesis");
  fs::create_symlink(directory.path() / "thesis", path);
  CHECK_THROWS_AS(SwapFile(directory.path(), kOwner, 8192), IoError);
  CHECK(fs::file_size(directory.path() / "thesis") == 8);
  fs::remove(path);
  fs::create_directory(path);
  CHECK_THROWS_AS(SwapFile(directory.path(), kOwner, 8192), IoError);
  fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_AS(SwapFile(directory.path(), kOwner, 8192), NotAFile);  // and does not hang
  CHECK_THROWS_AS(SwapFile(directory.path() / "nowhere", kOwner, 8192), InputMissing);
}

TEST_CASE("a file that grows beyond a limit is refused at the start and leaves nothing",
          "[offload]") {
  const testing::TemporaryDirectory directory;
  const auto limited = [&] {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw InternalError("setrlimit");
    const SwapFile file(directory.path(), kOwner, 2 << 20);
  };
  CHECK_THAT(test::run_processes({limited})[0].error,
             Contains("needs 2101248 bytes, files may have 1048576 (RLIMIT_FSIZE)"));
  CHECK(fs::is_empty(directory.path()));
}

// /dev/shm is a tmpfs of a size, which says at once when a file would be larger than all of it.
TEST_CASE("a full disk is told with what is needed and what is free, and nothing is left",
          "[offload]") {
  const fs::path directory = fs::path("/dev/shm") / ("ds-swap-test-" + std::to_string(::getpid()));
  fs::create_directory(directory);
  const int64_t too_much = narrow<int64_t>(fs::space(directory).capacity) + (1 << 20);
  std::string error;
  try {
    const SwapFile file(directory, kOwner, too_much);
  } catch (const DiskFull& e) {
    error = e.what();
  }
  const bool is_empty = fs::is_empty(directory);
  fs::remove_all(directory);
  CHECK_THAT(error, Contains("needs " + std::to_string(too_much + 4096) + " bytes, ") &&
                        Contains(" are free in " + directory.string()));
  CHECK(is_empty);
}

#ifdef DS_FAILPOINTS
TEST_CASE("a process that is killed while it makes its file leaves what the next one replaces",
          "[offload]") {
  for (const char* place :
       {"swap.created", "swap.header_written", "swap.reserved", "swap.replaced"}) {
    const testing::TemporaryDirectory directory;
    if (place == std::string("swap.replaced"))
      write_text(directory.path() / "night-run.rank-1.swap", "");
    const auto dies = [&] {
      arm_failpoints(std::string(place) + "=kill", {});
      const SwapFile file(directory.path(), kOwner, 65'536);
    };
    CAPTURE(place);
    CHECK(WTERMSIG(test::run_processes({dies})[0].status) == SIGKILL);
    CHECK_NOTHROW(SwapFile(directory.path(), kOwner, 65'536));
    CHECK(fs::is_empty(directory.path()));
  }
}

TEST_CASE("whatever fails while a file is made, nothing partial stays", "[offload]") {
  for (const char* place : {"swap.created", "swap.header_written", "swap.reserved"}) {
    const testing::TemporaryDirectory directory;
    arm_failpoints(std::string(place) + "=error(enospc)", {});
    CHECK_THROWS_AS(SwapFile(directory.path(), kOwner, 65'536), DiskFull);
    arm_failpoints(std::string(place) + "=off", {});
    CHECK(fs::is_empty(directory.path()));
  }
}
#endif

}  // namespace
}  // namespace ds
