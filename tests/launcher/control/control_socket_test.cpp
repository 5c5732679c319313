// The control socket against good, bad, slow and foreign callers. Time is an argument, so nothing
// waits.
#include "launcher/control/control_socket.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/status/error.h"
#include "launcher/control/control_query.h"
#include "launcher/process/abstract_address.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::seconds;

std::string fresh_name() {
  static int number = 0;
  return fmt::format("dslaunch-test-{}-{}", getpid(), ++number);
}

std::string echo(std::string_view request) { return fmt::format("<{}>", request); }

Fd call(const std::string& name) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const AbstractAddress address(name);
  REQUIRE(connect(fd.get(), address.get(), address.size()) == 0);
  return fd;
}

// What comes until the other side closes.
std::string all_from(int fd) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = recv(fd, bytes.data(), bytes.size(), 0)) > 0;) {
    text.append(bytes.data(), static_cast<size_t>(got));
  }
  return text;
}

void say(int fd, std::string_view text) {
  REQUIRE(send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

}  // namespace

TEST_CASE("a request line is answered once, however it arrives", "[launcher]") {
  const std::string name = fresh_name();
  ControlSocket control(name, {});
  const Fd fd = call(name);
  say(fd.get(), "sta");
  control.serve(seconds(1), echo);
  CHECK(control.connections() == 1);
  say(fd.get(), "tus\nmore");
  control.serve(seconds(2), echo);
  CHECK(control.connections() == 0);
  CHECK(all_from(fd.get()) == "<status>\n");
  CHECK_THROWS_AS(ControlSocket(name, {}), IoError);
}

TEST_CASE("silent and slow callers are dropped, a long request is refused", "[launcher]") {
  const std::string name = fresh_name();
  ControlSocket control(name, {.connections = 2, .request_bytes = 100, .patience = seconds(5)});
  const Fd silent = call(name);
  control.serve(seconds(1), echo);
  Fd wordy = call(name);
  const Fd third = call(name);
  say(wordy.get(), std::string(200, 'x'));
  say(third.get(), "third\n");
  control.serve(seconds(2), echo);
  CHECK_THAT(all_from(wordy.get()), Catch::Contains("at most 100 bytes"));
  CHECK(control.connections() == 2);  // until it has read the answer and hangs up
  wordy = Fd();
  control.serve(seconds(3), echo);
  CHECK(control.connections() == 1);
  control.serve(seconds(3), echo);  // now there is room for the third
  CHECK(all_from(third.get()) == "<third>\n");
  control.serve(seconds(6), echo);
  CHECK(control.connections() == 0);
  CHECK(all_from(silent.get()).empty());

  const Fd deaf = call(name);  // asks, and never reads
  say(deaf.get(), "all\n");
  const auto much = [](std::string_view) { return std::string(8 << 20, 'y'); };
  control.serve(seconds(10), much);
  CHECK(control.connections() == 1);
  control.serve(seconds(15), much);
  CHECK(control.connections() == 0);
}

TEST_CASE("a caller of another user is not heard", "[launcher]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can become another user");
    return;
  }
  const std::string name = fresh_name();
  ControlSocket control(name, {});
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    const Fd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    const AbstractAddress address(name);
    if (connect(fd.get(), address.get(), address.size()) != 0) _exit(3);
    char byte = 0;
    _exit(recv(fd.get(), &byte, 1, 0) == 0 ? 0 : 4);  // closed without a word
  }
  pollfd watched{};
  std::vector<pollfd> descriptors;
  control.add_poll_descriptors(descriptors);
  watched = descriptors.at(0);
  REQUIRE(poll(&watched, 1, 10000) == 1);
  control.serve(seconds(1), echo);
  CHECK(control.connections() == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a server of another user is not believed", "[launcher]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can become another user");
    return;
  }
  const std::string name = fresh_name();
  std::array<int, 2> ready{};
  REQUIRE(pipe(ready.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    ControlSocket control(name, {});
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK_THROWS_WITH(query_socket(name, "x", seconds(5)), Catch::Contains("another user"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("the asking end: an answer, nobody there, no answer", "[launcher]") {
  const std::string name = fresh_name();
  CHECK_FALSE(query_socket(name, "x", seconds(1)));
  ControlSocket control(name, {});
  CHECK_THROWS_AS(query_socket(name, "x", Time(1)), Error);
  std::atomic<bool> over = false;
  std::thread server([&] {
    while (!over) {
      control.serve(std::chrono::steady_clock::now().time_since_epoch(), echo);
      std::this_thread::yield();
    }
  });
  const auto answer = query_socket(name, "hello", seconds(10));
  over = true;
  server.join();
  CHECK(answer == "<hello>");
}

TEST_CASE("the name of a run's socket depends on its place and its user", "[launcher]") {
  CHECK(control_socket_name("/tmp", 1) == control_socket_name("/tmp/../tmp/.", 1));
  CHECK(control_socket_name("/tmp", 1) != control_socket_name("/tmp", 2));
  CHECK_THROWS_AS(control_socket_name("/no/such/place", 1), IoError);
}

}  // namespace ds
