// Machines that refuse: by a filter of system calls, limits, and file systems without O_DIRECT.
#include "offload/async_io/choose_engine.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/status/error.h"
#include "offload/async_io/async_io.h"
#include "tests/suites/async_io_suite.h"
#include "tests/support/catch.h"
#include "tests/support/failing_calls/refusing_kernel.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

using Catch::Contains;
using ds::testing::TemporaryDirectory, ds::testing::in_a_child, ds::testing::refuse;

constexpr uid_t kNobody = 65534;

void become_nobody(rlim_t lockable_bytes) {
  const rlimit limit{lockable_bytes, lockable_bytes};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
      ::setresuid(kNobody, kNobody, kNobody) != 0) {
    throw InternalError(std::string("becoming nobody: ") + std::strerror(errno));
  }
}

// The line of the choice, after bytes went to a file and came back by what was chosen.
std::string line_of_a_working_choice(const std::filesystem::path& folder) {
  const IoOptions options{.block_size = 8192, .queue_depth = 4, .thread_count = 2};
  AsyncIo io(options);
  const auto file = IoFile::open((folder / "file").string(), OpenMode::kReadWrite);
  std::vector<std::byte> written(100'001);
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 31);
  std::vector<std::byte> read(written.size());
  const auto of_file = io.register_file(file);
  const auto of_memory = io.register_memory(read);
  io.wait(io.write(file, 50, written));
  io.wait(io.read(file, 50, read));
  if (read != written) throw InternalError("other bytes came back");
  const EngineChoice choice = choose_engine(options);
  if (io.engine_name() != to_string(choice.kind)) throw InternalError("another engine is used");
  return choice.line;
}

bool has_uring() {
  try {
    make_uring_engine(2);
    return true;
  } catch (const Unsupported& error) {
    WARN("this machine has no io_uring to refuse: " << error.what());
    return false;
  }
}

std::string with_refused(const std::vector<long>& calls, int error_number) {
  const TemporaryDirectory folder;
  return in_a_child([&] {
    refuse(calls, error_number);
    return line_of_a_working_choice(folder.path());
  });
}

}  // namespace

TEST_CASE("a machine that refuses nothing gets io_uring", "[offload]") {
  if (!has_uring()) return;
  CHECK_THAT(with_refused({}, EPERM), Catch::StartsWith("asynchronous I/O: io_uring"));
}

TEST_CASE("where io_uring is refused libaio is taken", "[offload]") {
  if (!has_uring()) return;
  CHECK(with_refused({SYS_io_uring_setup}, EPERM) ==
        "asynchronous I/O: libaio (io_uring: io_uring_setup(2): Operation not permitted)");
  CHECK(with_refused({SYS_io_uring_setup}, ENOSYS) ==
        "asynchronous I/O: libaio (io_uring: io_uring_setup(2): Function not implemented)");
}

TEST_CASE("a ring that can be made but not entered is refused, too", "[offload]") {
  if (!has_uring()) return;
  CHECK(with_refused({SYS_io_uring_enter}, EPERM) ==
        "asynchronous I/O: libaio (io_uring: io_uring_enter: Operation not permitted)");
}

TEST_CASE("where both are refused threads do the work", "[offload]") {
  const std::string line = with_refused({SYS_io_uring_setup, SYS_io_setup}, EPERM);
  CHECK_THAT(line, Catch::StartsWith("asynchronous I/O: threads (io_uring: ") &&
                       Contains("; libaio: io_setup(2): Operation not permitted"));
}

TEST_CASE("a limit of memory that may be locked is named", "[offload]") {
  if (!has_uring()) return;
  if (::geteuid() != 0) {
    WARN("only root can become somebody whom RLIMIT_MEMLOCK binds");
    return;
  }
  const auto line_with = [](rlim_t bytes) {
    const TemporaryDirectory folder;
    REQUIRE(::chown(folder.path().c_str(), kNobody, kNobody) == 0);
    return in_a_child([&] {
      become_nobody(bytes);
      return line_of_a_working_choice(folder.path());
    });
  };
  CHECK(line_with(512 << 10) ==
        "asynchronous I/O: io_uring without registered memory: the kernel refuses 1 MiB, "
        "RLIMIT_MEMLOCK is 524288 bytes (ulimit -l)");
  // Some kernels count the rings themselves, and then there are none.
  CHECK_THAT(line_with(0), Contains("RLIMIT_MEMLOCK is 0 bytes (ulimit -l)"));
}

TEST_CASE("GPUs' files are asked for or not used", "[offload]") {
  try {
    const EngineChoice choice = choose_engine({.use_gds = true});
    CHECK(choice.kind == EngineKind::kGds);
  } catch (const Unsupported& error) {
    CHECK_THAT(error.what(), Contains("cuFile"));
  }
}

TEST_CASE("a file system without O_DIRECT is used through the page cache", "[offload]") {
  const TemporaryDirectory folder;
  if (::mount("ramfs", folder.path().c_str(), "ramfs", 0, nullptr) != 0) {
    WARN("no such file system is mounted here: " << std::strerror(errno));
    return;
  }
  {
    const auto file = IoFile::open((folder.path() / "file").string(), OpenMode::kCreate);
    CHECK(file.direct_fd() == -1);
    CHECK(file.why_cached() == "its file system refuses O_DIRECT: Invalid argument");
  }
  std::vector<test::EngineMaker> makers{[](int depth) { return make_thread_engine(depth, 4); },
                                        make_aio_engine};
  if (has_uring()) makers.emplace_back(make_uring_engine);
  for (const auto& make : makers) {
    for (const auto& one : test::async_io_cases()) {
      INFO(one.name);
      CHECK_NOTHROW(one.body(make, folder.path()));
    }
  }
  CHECK(::umount2(folder.path().c_str(), MNT_DETACH) == 0);
}

TEST_CASE("what is no regular file is not opened", "[offload]") {
  const TemporaryDirectory folder;
  CHECK_THROWS_AS(IoFile::open(folder.path().string(), OpenMode::kRead), NotAFile);
  CHECK_THROWS_AS(IoFile::open("/dev/null", OpenMode::kRead), NotAFile);
  const std::string path = (folder.path() / "file").string();
  CHECK_THROWS_AS(IoFile::open(path, OpenMode::kRead), InputMissing);
  IoFile file = IoFile::open(path, OpenMode::kCreate);
  CHECK_THROWS_AS(IoFile::open(path, OpenMode::kCreate), IoError);
  file.allocate(10'000);
  CHECK(file.size() == 10'000);
  file.sync();
}

}  // namespace ds
