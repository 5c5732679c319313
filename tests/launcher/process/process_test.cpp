#include "launcher/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "core/status/error.h"
#include "launcher/process/credentials.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

std::string read_all(int fd) {
  std::string out;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 1; got > 0;) {
    got = read(fd, bytes.data(), bytes.size());
    out.append(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
  }
  return out;
}

Process shell(const std::string& script, int output = -1) {
  const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnOptions options{"/bin/sh", {"-c", script}, {"PATH=/usr/bin:/bin", "GREETING=hello"}, {}};
  if (output >= 0) {
    options.descriptors = {{0, nothing.get()}, {1, output}};
  }
  return Process(options);
}

bool ends_within_10s(const Process& process) {
  pollfd ended{process.end_fd(), POLLIN, 0};
  return poll(&ended, 1, 10'000) == 1;
}

}  // namespace

TEST_CASE("a process returns its code or the signal that killed it", "[launcher]") {
  CHECK(shell("exit 7").wait().code == 7);
  const ExitStatus killed = shell("kill -TERM $$").wait();
  CHECK(killed.signal == SIGTERM);
  CHECK(describe(killed) == "was killed by signal 15 (Terminated)");
  CHECK(describe(ExitStatus{7, 0}) == "exited with code 7");
}

TEST_CASE("the end is seen without waiting, once it has come", "[launcher]") {
  Process process = shell("exec sleep 100");
  CHECK_FALSE(process.try_wait());
  process.signal_group(SIGKILL);
  REQUIRE(ends_within_10s(process));
  CHECK(process.try_wait()->signal == SIGKILL);
  CHECK(process.try_wait()->signal == SIGKILL);
  process.signal_group(SIGKILL);  // the number may be someone else's by now: nothing happens
}

TEST_CASE("a process gets only the environment and descriptors it is given", "[launcher]") {
  PipeEnds pipe = make_pipe();
  const Fd secret(open("/dev/null", O_RDONLY));  // not close-on-exec
  Process process = shell("echo $GREETING $HOME; cd /proc/self/fd && echo *", pipe.write.get());
  pipe.write = Fd();
  const std::string said = read_all(pipe.read.get());
  CHECK(process.wait().code == 0);
  CHECK(said == "hello\n0 1 2\n");  // 2 is the directory that the shell lists
}

TEST_CASE("signals blocked or ignored here are neither in the child", "[launcher]") {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  Process process = shell("kill -TERM $$; exit 3");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(process.wait().signal == SIGTERM);
}

TEST_CASE("a missing program is named", "[launcher]") {
  const SpawnOptions options{"/nowhere/rankd", {}, {}, {}};
  CHECK_THROWS_WITH(Process(options), Catch::Contains("/nowhere/rankd"));
  CHECK_THROWS_AS(Process(options), InputMissing);
}

TEST_CASE("whatever the process started ends with it", "[launcher]") {
  PipeEnds pipe = make_pipe();
  {
    Process process = shell("sleep 1000 & sleep 1000 & exit 0", pipe.write.get());
    pipe.write = Fd();
    REQUIRE(ends_within_10s(process));
    CHECK(process.try_wait());
  }
  // End of file comes only when no process holds the write end any more.
  CHECK(read_all(pipe.read.get()).empty());
}

TEST_CASE("a destroyed process is dead", "[launcher]") {
  PipeEnds pipe = make_pipe();
  {
    const Process process = shell("exec sleep 1000", pipe.write.get());
    pipe.write = Fd();
  }
  CHECK(read_all(pipe.read.get()).empty());
}

TEST_CASE("a program is found in the first folder that has it", "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::string one = (here.path() / "one").string();
  const std::string two = (here.path() / "two").string();
  for (const std::string& folder : {one, two}) std::filesystem::create_directory(folder);
  const auto add = [](const std::string& path, std::filesystem::perms permissions) {
    std::ofstream(path) << "#!/bin/sh\n";
    std::filesystem::permissions(path, permissions);
  };
  add(one + "/plain", std::filesystem::perms::owner_read);
  add(two + "/plain", std::filesystem::perms::owner_all);
  add(one + "/tool", std::filesystem::perms::owner_all);
  add(two + "/tool", std::filesystem::perms::owner_all);
  CHECK(find_on_path(one + ":" + two, "tool") == one + "/tool");
  CHECK(find_on_path(two + ":" + one, "tool") == two + "/tool");
  CHECK(find_on_path("::" + two, "tool") == two + "/tool");
  CHECK(find_on_path(one + ":" + two, "plain") == two + "/plain");  // the first cannot be run
  CHECK(find_on_path(one, "missing").empty());
  CHECK(find_on_path("", "tool").empty());
}

TEST_CASE("tokens are random and compared whole", "[launcher]") {
  const std::string token = random_bytes(32);
  CHECK(token.size() == 32);
  CHECK(random_bytes(32) != token);
  CHECK(random_bytes(257).size() == 257);  // more than the kernel gives at once
  CHECK(equal_secrets(token, std::string(token)));
  CHECK_FALSE(equal_secrets(token, token.substr(1)));
  CHECK_FALSE(equal_secrets(token, ""));
  CHECK(to_hex("\x01\xff") == "01ff");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace ds
