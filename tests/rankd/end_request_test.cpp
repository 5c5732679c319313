// Signals that ask a verb to end.
#include "rankd/verbs/terminal/end_request.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.h"

namespace ds {
namespace {

// How a process ends that does this.
int status_of(void (*work)()) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(7);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("a signal is noted, and told when the verb asks", "[rankd]") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(number);
    const EndRequest request;
    CHECK_NOTHROW(EndRequest::check());
    ::raise(number);
    try {
      EndRequest::check();
      FAIL("nothing was told");
    } catch (const EndRequested& end) {
      CHECK(end.signal() == number);
    }
  }
  const EndRequest next;  // knows nothing of what an earlier one was asked
  CHECK_NOTHROW(EndRequest::check());
}

TEST_CASE("a second signal ends the process, and so does one behind the request", "[rankd]") {
  const int twice = status_of([] {
    const EndRequest request;
    ::raise(SIGTERM);
    ::raise(SIGTERM);
  });
  CHECK((WIFSIGNALED(twice) && WTERMSIG(twice) == SIGTERM));
  const int behind = status_of([] {
    { const EndRequest request; }
    ::raise(SIGINT);
  });
  CHECK((WIFSIGNALED(behind) && WTERMSIG(behind) == SIGINT));
  const int by_it = status_of([] { end_by(SIGHUP); });
  CHECK((WIFSIGNALED(by_it) && WTERMSIG(by_it) == SIGHUP));
}

TEST_CASE("a signal that was ignored stays ignored", "[rankd]") {
  const int status = status_of([] {
    ::signal(SIGHUP, SIG_IGN);  // as nohup does
    const EndRequest request;
    ::raise(SIGHUP);
    EndRequest::check();
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
}

}  // namespace
}  // namespace ds
