// Ends of processes, as the kernel tells of them and, where it refuses to, as a thread sees them.
#include "core/tasks/process_end.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/catch.h"
#include "tests/support/failing_calls/refusing_kernel.h"

namespace ds {
namespace {

using ds::testing::in_a_child, ds::testing::refuse;

constexpr int kLongEnoughMs = 10'000;

int sleeping_child() {
  const int parent = ::getpid();
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);     // or it would hold the pipe of who asks
    if (::getppid() != parent) ::_exit(0);  // who has ended before that
    for (;;) ::pause();
  }
  return pid;
}

bool comes_within(const ProcessEnd& end, int milliseconds) {
  pollfd request{end.fd(), POLLIN, 0};
  return ::poll(&request, 1, milliseconds) == 1;
}

// Watches the end of a child that nobody waits for before it has come; says what went wrong.
std::string ends_of_children() {
  const int child = sleeping_child();
  const auto end = ProcessEnd::of(child);
  if (!end) return "there is no child";
  if (comes_within(*end, 200) || end->has_come()) return "it has ended too early";
  ::kill(child, SIGKILL);
  if (!comes_within(*end, kLongEnoughMs) || !end->has_come()) return "its end never came";
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return "it has been waited for";
  if (!end->has_come()) return "its end is forgotten";
  return ProcessEnd::of(child) ? "it is back" : "as expected";
}

std::string with_refused(int error_number) {
  return in_a_child([=] {
    refuse({SYS_pidfd_open}, error_number);
    return ends_of_children();
  });
}

TEST_CASE("the end of a process is seen, with pidfd_open and where the kernel refuses it",
          "[core]") {
  CHECK(in_a_child(ends_of_children) == "as expected");
  CHECK(with_refused(ENOSYS) == "as expected");  // gVisor
  CHECK(with_refused(EPERM) == "as expected");   // containers with an old list of calls
  CHECK(with_refused(EMFILE) == "thrown: pidfd_open: Too many open files");
}

TEST_CASE("who looks for an end that has not come stops looking", "[core]") {
  CHECK(in_a_child([] {
          refuse({SYS_pidfd_open}, ENOSYS);
          const int child = sleeping_child();
          {
            auto first = ProcessEnd::of(child);
            const ProcessEnd moved(std::move(*first));
            if (comes_within(moved, 10)) return "it has ended";
          }
          ::kill(child, SIGKILL);
          ::waitpid(child, nullptr, 0);
          return "stopped";
        }) == "stopped");
}

TEST_CASE("what a process is told apart by", "[core]") {
  const auto own = process_stat(getpid());
  REQUIRE(own);
  CHECK(own->state == 'R');
  CHECK(own->started > 0);
  CHECK_FALSE(process_stat(1 << 30));
  const int child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(process_stat(child)->state == 'Z');
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace ds
