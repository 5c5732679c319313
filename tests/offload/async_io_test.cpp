#include "offload/async_io/async_io.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <vector>

#include "offload/async_io/choose_engine.h"
#include "tests/offload/faulty_engine.h"
#include "tests/suites/async_io_suite.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

using Catch::Contains;
using ds::testing::TemporaryDirectory;
using test::EngineMaker;
using test::IoFault;
using test::IoFaults;
using test::make_async_io;

struct NamedEngine {
  std::string name;
  EngineMaker make;
};

// The stand-in (tests/support/fake_cufile) needs no modules of the kernel.
std::string modules_for_cufile() {
  return std::getenv("DS_FAKE_CUFILE") != nullptr ? "/dev/null" : "/proc/modules";
}

std::vector<NamedEngine> engines_of_this_machine() {
  std::vector<NamedEngine> all{
      {"threads", [](int depth) { return make_thread_engine(depth, 4); }},
      {"libaio", make_aio_engine},
      {"io_uring", make_uring_engine},
      {"cuFile", [](int depth) { return make_gds_engine(depth, 4, modules_for_cufile()); }},
  };
  std::erase_if(all, [](const NamedEngine& engine) {
    try {
      engine.make(2);
      return false;
    } catch (const Unsupported& error) {
      WARN(engine.name << " is not tested here: " << error.what());
      return true;
    }
  });
  return all;
}

const std::vector<NamedEngine>& engines() {
  static const std::vector<NamedEngine> all = engines_of_this_machine();
  return all;
}

EngineMaker with_faults(const EngineMaker& make, IoFaults& faults) {
  return [&make, &faults](int depth) { return test::make_faulty_engine(make(depth), faults); };
}

std::vector<std::byte> counting_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

template <class E>
std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  }
  return "no such error";
}

void run_suite(const std::string& whose, const EngineMaker& make) {
  for (const auto& one : test::async_io_cases()) {
    INFO(whose << ": " << one.name);
    const TemporaryDirectory folder;
    CHECK_NOTHROW(one.body(make, folder.path()));
  }
}

constexpr int64_t kBlock = 8192;
constexpr size_t kBytes = 6 * kBlock + 4096 + 77;  // with a head and a tail, at offset 100

}  // namespace

// With the real library (in LD_LIBRARY_PATH, or of the system) or the stand-in; elsewhere there is
// nothing to test.
TEST_CASE("cuFile passes the suite, also with every third transfer short or failing once",
          "[offload][cufile]") {
  const EngineMaker make = [](int depth) {
    return make_gds_engine(depth, 4, modules_for_cufile());
  };
  try {
    make(1);
  } catch (const Unsupported& error) {
    if (std::getenv("DS_FAKE_CUFILE") != nullptr) FAIL(error.what());
    WARN(error.what());
    return;
  }
  run_suite("cuFile", make);
  for (const IoFault fault : {IoFault::kOneByte, IoFault::kError}) {
    IoFaults faults;
    faults.fault = fault;
    faults.every = 3;
    run_suite("cuFile", with_faults(make, faults));
  }
}

TEST_CASE("cuFile is not begun where the kernel has no list of modules", "[offload][cufile]") {
  if (std::getenv("DS_FAKE_CUFILE") == nullptr) return;  // without a library that is the reason
  CHECK_THROWS_WITH(make_gds_engine(1, 1, "/no/modules"),
                    Contains("no loadable modules (/no/modules)"));
}

TEST_CASE("every engine passes the suite", "[offload]") {
  for (const auto& engine : engines()) run_suite(engine.name, engine.make);
}

TEST_CASE("every engine passes the suite with completions backwards", "[offload]") {
  for (const auto& engine : engines()) {
    IoFaults faults;
    faults.reordered = true;
    run_suite(engine.name, with_faults(engine.make, faults));
  }
}

TEST_CASE("every engine passes the suite with every third transfer short", "[offload]") {
  for (const auto& engine : engines()) {
    for (const IoFault fault : {IoFault::kOneByte, IoFault::kAllButOneByte}) {
      IoFaults faults;
      faults.fault = fault;
      faults.every = 3;
      run_suite(engine.name, with_faults(engine.make, faults));
      CHECK(faults.played > 0);
    }
  }
}

TEST_CASE("every engine passes the suite with every third transfer failing once", "[offload]") {
  for (const auto& engine : engines()) {
    IoFaults faults;
    faults.fault = IoFault::kError;
    faults.every = 3;
    run_suite(engine.name, with_faults(engine.make, faults));
    CHECK(faults.played > 0);
  }
}

TEST_CASE("a transfer that is short at any point is continued", "[offload]") {
  const auto bytes = counting_bytes(kBytes);
  const IoOptions options{.block_size = kBlock, .queue_depth = 2};
  for (const auto& engine : engines()) {
    for (const IoFault fault :
         {IoFault::kNothingMoved, IoFault::kOneByte, IoFault::kAllButOneByte, IoFault::kError}) {
      for (int64_t first = 0; first < 18; ++first) {
        const TemporaryDirectory folder;
        IoFaults faults;
        faults.fault = fault;
        faults.first = first;
        const auto io = make_async_io(with_faults(engine.make, faults), options);
        const auto file = IoFile::open((folder.path() / "file").string(), OpenMode::kCreate);
        io->wait(io->write(file, 100, bytes));
        std::vector<std::byte> back(kBytes);
        io->wait(io->read(file, 100, back));
        INFO(engine.name << ", fault " << static_cast<int>(fault) << " at " << first);
        CHECK(back == bytes);
        CHECK(faults.played == (first < faults.count ? 1 : 0));
      }
    }
  }
}

TEST_CASE("what fails twice at any point is reported with its place", "[offload]") {
  const auto bytes = counting_bytes(kBytes);
  const IoOptions options{.block_size = kBlock, .queue_depth = 2};
  for (const auto& engine : engines()) {
    for (int64_t first = 0; first < 8; ++first) {
      const TemporaryDirectory folder;
      const std::string path = (folder.path() / "file").string();
      IoFaults faults;
      faults.fault = IoFault::kError;
      faults.first = first;
      faults.times = 2;
      const auto io = make_async_io(with_faults(engine.make, faults), options);
      const auto file = IoFile::open(path, OpenMode::kCreate);
      const std::string text = error_of<IoError>([&] { io->wait(io->write(file, 100, bytes)); });
      INFO(engine.name << " at " << first);
      CHECK_THAT(text, Contains(engine.name + ": second write of ") && Contains(" at offset ") &&
                           Contains(path) && Contains("Input/output error"));
      io->wait(io->write(file, 100, bytes));  // the lane goes on
      std::vector<std::byte> back(kBytes);
      io->wait(io->read(file, 100, back));
      CHECK(back == bytes);
    }
  }
}

TEST_CASE("other errors are not tried again", "[offload]") {
  IoFaults faults;
  faults.fault = IoFault::kError;
  faults.error_number = ENOSPC;
  const TemporaryDirectory folder;
  const EngineMaker threads = [](int depth) { return make_thread_engine(depth, 2); };
  const auto io = make_async_io(with_faults(threads, faults), {});
  const auto file = IoFile::open((folder.path() / "file").string(), OpenMode::kCreate);
  const auto bytes = counting_bytes(4096);
  CHECK_THROWS_AS(io->wait(io->write(file, 0, bytes)), DiskFull);
  CHECK(io->figures().tried_again == 0);
}

TEST_CASE("a block that does not end is reported, and its memory waited for", "[offload]") {
  const TemporaryDirectory folder;
  const std::string path = (folder.path() / "file").string();
  const auto bytes = counting_bytes(3 * kBlock);
  for (const auto& engine : engines()) {
    IoFaults faults;
    faults.fault = IoFault::kLate;
    faults.first = 3;  // the first of the read
    faults.late = std::chrono::milliseconds(1500);
    std::vector<std::byte> back(bytes.size());
    const auto file = IoFile::open(path, OpenMode::kReadWrite);
    {
      const IoOptions options{.block_size = kBlock, .queue_depth = 4, .timeout_ms = 200};
      const auto io = make_async_io(with_faults(engine.make, faults), options);
      io->wait(io->write(file, 0, bytes));
      const std::string text = error_of<IoTimeout>([&] { io->wait(io->read(file, 0, back)); });
      CHECK_THAT(text,
                 Contains(engine.name + " has not ended the read of 8192 bytes at offset 0") &&
                     Contains(path));
    }
    CHECK(back == bytes);  // AsyncIo is gone: so is what could write to the memory
  }
}

TEST_CASE("a block that is late, but not too late, is waited for", "[offload]") {
  const TemporaryDirectory folder;
  const auto bytes = counting_bytes(6 * kBlock);
  for (const auto& engine : engines()) {
    IoFaults faults;
    faults.fault = IoFault::kLate;
    faults.every = 4;
    faults.late = std::chrono::milliseconds(30);
    const auto file = IoFile::open((folder.path() / engine.name).string(), OpenMode::kCreate);
    const auto io =
        make_async_io(with_faults(engine.make, faults), {.block_size = kBlock, .queue_depth = 2});
    io->wait(io->write(file, 0, bytes));
    std::vector<std::byte> back(bytes.size());
    io->wait(io->read(file, 0, back));
    CHECK(back == bytes);
    CHECK(faults.played >= 3);
  }
}

TEST_CASE("a write beyond the limit of file sizes is reported with its place", "[offload]") {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto bytes = counting_bytes(8 * kBlock);
  for (const auto& engine : engines()) {
    const TemporaryDirectory folder;
    const auto file = IoFile::open((folder.path() / "file").string(), OpenMode::kCreate);
    const auto io = make_async_io(engine.make, {.block_size = kBlock, .queue_depth = 1});
    const rlimit limited{5 * kBlock, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limited) == 0);
    const std::string text = error_of<IoError>([&] { io->wait(io->write(file, 0, bytes)); });
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    INFO(engine.name);
    CHECK_THAT(text, Contains("write of 8192 bytes at offset 40960 of " + file.path() +
                              ": File too large"));
  }
}

TEST_CASE("a full disk is reported with its place", "[offload]") {
  const TemporaryDirectory folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    WARN("no full disk is made here: mount: " << std::strerror(errno));
    return;
  }
  const auto bytes = counting_bytes(64 * kBlock);
  for (const auto& engine : engines()) {
    if (engine.name == "cuFile") continue;  // needs O_DIRECT
    const std::string path = (folder.path() / "file").string();
    const auto file = IoFile::open(path, OpenMode::kCreate);
    const auto io = make_async_io(engine.make, {.block_size = kBlock, .queue_depth = 1});
    const std::string text = error_of<DiskFull>([&] { io->wait(io->write(file, 0, bytes)); });
    INFO(engine.name);
    CHECK_THAT(text, Contains(" bytes at offset 262144 of " + path + ": No space left"));
    std::filesystem::remove(path);
  }
  CHECK(::umount2(folder.path().c_str(), MNT_DETACH) == 0);
}

}  // namespace ds
