#include "launcher/process/run_lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "launcher/process/process.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// Another process that holds the lease until it is killed.
class OtherLauncher {
 public:
  explicit OtherLauncher(const fs::path& directory) {
    PipeEnds ready = make_pipe();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        const RunLease lease = RunLease::take(directory, {});
        [[maybe_unused]] const ssize_t told = write(ready.write.get(), "!", 1);
        for (;;) pause();
      } catch (const Error&) {
        _exit(1);
      }
    }
    ready.write = Fd();
    char byte = 0;
    REQUIRE(read(ready.read.get(), &byte, 1) == 1);
  }
  OtherLauncher(const OtherLauncher&) = delete;
  OtherLauncher& operator=(const OtherLauncher&) = delete;
  ~OtherLauncher() { end(); }
  int pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  int pid_ = 0;
};

Lease written_by(const fs::path& directory) { return last_lease(directory).value(); }

void write_lease(const fs::path& directory, const Lease& lease) {
  std::ofstream(lease_path(directory)) << to_text(lease);
}

}  // namespace

TEST_CASE("one launcher has a run directory, the next is told who", "[launcher]") {
  const testing::TemporaryDirectory here;
  OtherLauncher other(here.path());
  CHECK_THROWS_WITH(
      RunLease::take(here.path(), {}),
      Catch::Contains(fmt::format("pid {} on", other.pid())) && Catch::Contains("--run-dir"));
  try {
    RunLease::take(here.path(), {});
  } catch (const LeaseRefused& refused) {
    CHECK(refused.exit_code() == ExitCode::kRequeue);
  }
  other.signal(SIGSTOP);  // it is still there
  CHECK_THROWS_AS(RunLease::take(here.path(), {}), LeaseRefused);
  CHECK(written_by(here.path()).pid == other.pid());
}

TEST_CASE("a launcher that was killed is followed at once", "[launcher]") {
  const testing::TemporaryDirectory here;
  OtherLauncher other(here.path());
  other.end();
  CHECK_FALSE(written_by(here.path()).over);
  RunLease lease = RunLease::take(here.path(), {});
  CHECK(written_by(here.path()).pid == getpid());
  lease.renew();
  lease.renew();
  CHECK(written_by(here.path()).renewals == 2);
  lease.end(75);
  CHECK(written_by(here.path()).over);
  CHECK(written_by(here.path()).exit_code == 75);
}

TEST_CASE("a lease that goes out of sight is over, and its code unknown", "[launcher]") {
  const testing::TemporaryDirectory here;
  { const RunLease lease = RunLease::take(here.path(), {}); }
  CHECK(written_by(here.path()).over);
  CHECK_FALSE(written_by(here.path()).exit_code);
}

TEST_CASE("whoever finds another's word in the lease has lost the run", "[launcher]") {
  const testing::TemporaryDirectory here;
  RunLease lease = RunLease::take(here.path(), {});
  Lease theirs = written_by(here.path());
  theirs.token = "theirs";
  theirs.host = "node-2";
  write_lease(here.path(), theirs);
  CHECK_THROWS_WITH(lease.renew(),
                    Catch::Contains("on node-2") && Catch::Contains("has taken this run over"));
  lease.end(0);  // changes nothing
  CHECK(written_by(here.path()) == theirs);
}

TEST_CASE("a lease that somebody removed comes back, unless another launcher was faster",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  RunLease lease = RunLease::take(here.path(), {});
  fs::remove(lease_path(here.path()));
  lease.renew();
  CHECK(written_by(here.path()).pid == getpid());
  CHECK_THROWS_AS(RunLease::take(here.path(), {}), LeaseRefused);  // the new file is locked, too
  fs::remove(lease_path(here.path()));
  const OtherLauncher other(here.path());
  CHECK_THROWS_WITH(lease.renew(), Catch::Contains(fmt::format("pid {}", other.pid())));
}

TEST_CASE("a watch ends when the user wants it", "[launcher]") {
  const testing::TemporaryDirectory here;
  Lease elsewhere;
  { const RunLease lease = RunLease::take(here.path(), {}); }
  elsewhere = written_by(here.path());
  elsewhere.over = false;
  elsewhere.kernel = "another machine's";
  elsewhere.host = "node-7";
  write_lease(here.path(), elsewhere);
  std::vector<std::string> watched;
  CHECK_THROWS_AS(
      RunLease::take(here.path(),
                     {.watching = [&](const Lease& holder) { watched.push_back(holder.host); },
                      .interrupted = [] { return true; }}),
      LeaseRefused);
  CHECK(watched == std::vector<std::string>{"node-7"});
}

TEST_CASE("a lease is a plain file and nothing else", "[launcher]") {
  const testing::TemporaryDirectory here;
  REQUIRE(mkfifo(lease_path(here.path()).c_str(), 0600) == 0);
  CHECK_THROWS_AS(RunLease::take(here.path(), {}), IoError);
  fs::remove(lease_path(here.path()));
  fs::create_directory(lease_path(here.path()));
  CHECK_THROWS_AS(RunLease::take(here.path(), {}), IoError);
  CHECK_THROWS_AS(RunLease::take(here.path() / "missing", {}), Error);
  CHECK_FALSE(last_lease(here.path() / "missing"));
}

}  // namespace ds
