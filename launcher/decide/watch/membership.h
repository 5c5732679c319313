// Who is in the world, and what happens next (pure): the life of one epoch as a state machine
// without clock, thread or process. The launcher feeds in what it sees, with the time it saw it,
// and does what tick() decides. What comes after the epoch is launcher/decide/recovery.h.
//
//   gathering --all joined--> running --all ended--> over
//       |                        |
//       +---- a rank failed -----+--> settling --the cause is known--> stopping --all ended--> over
//
// An epoch is the incarnation of the world: messages of another epoch are refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status/error.h"
#include "launcher/decide/text/clock_time.h"
#include "launcher/decide/watch/hang_watch.h"
#include "launcher/decide/watch/link_watch.h"

namespace ds {

struct WorldMember {
  int rank = 0;
  int64_t epoch = 0;
  std::string host;
  int64_t pid = 0;
};

enum class Blame {
  kOwn,   // this rank failed by itself
  kPeer,  // it stopped because another one had failed
};

struct Failure {
  enum class Kind {
    kSignal,       // value: the signal
    kExit,         // value: the exit code
    kLease,        // no heartbeat
    kNeverJoined,  // its epoch could not be started
    kHungAtStart,  // its process lives and has not joined
    kHang,         // it answers, but does not progress
    kUnreported,   // it exited without telling of its end; value: the exit code
    kHostLost,     // its host cannot be reached; detail: which, and why
    kLinkCut,      // hosts do not reach each other; detail: which; `without` them the others do
  };
  int rank = 0;
  Kind kind = Kind::kExit;
  int value = 0;
  Blame blame = Blame::kOwn;
  std::string detail;  // the rank's own words, may be empty
  Time at{};
  int64_t step = 0;  // where the world was, as far as any rank had said
  std::vector<std::string> without{};
};

std::string describe(const Failure& failure);

// Someone asked for the end: a signal to the launcher, or --timeout.
struct StopRequest {
  std::string why;
  ExitCode code_when_saved = ExitCode::kRequeue;
  int code_when_killed = 143;
  std::optional<Time> grace;  // from the request on; none: as long as saving takes
};

struct Decision {
  enum class Kind {
    kStart,    // admit every member of `world`
    kStopAll,  // end every process of the epoch
    kFinish,   // nothing of the epoch is left; exit with `exit_code`
  };
  Kind kind = Kind::kStart;
  int64_t epoch = 1;
  std::string reason;
  std::vector<WorldMember> world;
  std::optional<Failure> root_cause;
  int exit_code = 0;
};

class Membership {
 public:
  struct Options {
    int world_size = 1;
    int64_t epoch = 1;
    Time lease = std::chrono::seconds(5);
    Time join_timeout = std::chrono::seconds(60);  // from its start until a rank has joined
    // From the first failure until the root cause is chosen: long enough for the process that
    // really failed to be seen beside those that only noticed.
    Time settle = std::chrono::milliseconds(100);
    Time exit_grace = std::chrono::seconds(10);  // from a rank's final report to its end
    HangWatch::Options hang{};
    LinkWatch::Options links{};
    // These are the hosts by rank, as the hostfile calls them; empty: one machine.
    std::vector<std::string> hosts{};
  };

  Membership(const Options& options, Time now);

  // Why the member is refused; nothing if it is welcome.
  std::optional<std::string> joined(Time now, const WorldMember& member);
  // False if the sender is not a member of this epoch.
  bool heartbeat(Time now, int64_t epoch, int rank, const RankProgress& progress);
  // What the rank says about its connections to others; all of it, every time.
  void links_reported(Time now, int rank, const std::vector<CutLink>& links);
  // As heartbeat(), where all that is known is that a step is done.
  bool stepped(Time now, int64_t epoch, int rank, int64_t step);
  // The rank says how it ends; its process is still there.
  void reported_end(Time now, int rank, int exit_code, Blame blame, const std::string& error);
  // The process is gone: by a signal, or with a code if signal == 0.
  void ended(Time now, int rank, int exit_code, int signal);
  // The rank's host is gone, and the rank with it.
  void host_lost(Time now, int rank, const std::string& why);
  void stop_requested(Time now, const StopRequest& request);
  // End everything now; `exit_code` is what the launcher then returns.
  void kill_requested(Time now, int exit_code, const std::string& why);

  // The next thing to do, if there is one; call until there is none.
  std::optional<Decision> tick(Time now);
  // When tick() may decide something although nothing happens.
  Time next_deadline() const;

  bool running() const { return phase_ == Phase::kRunning; }
  bool gathering() const { return phase_ == Phase::kGathering; }

  struct RankView {
    std::optional<WorldMember> member;
    RankProgress progress;
    Time silence{};  // since it was heard
    bool ending = false;
    bool gone = false;
  };
  std::vector<RankView> ranks(Time now) const;
  std::optional<HangWatch::Hang> awaited(Time now) const { return hang_watch_.awaited(now); }
  // One line: the phase, who is missing, where everybody is.
  std::string explain() const;

 private:
  enum class Phase { kGathering, kRunning, kSettling, kStopping, kOver };
  struct RankState {
    std::optional<WorldMember> member;
    Time heard{};
    RankProgress progress;
    std::optional<Failure> final_report;  // kind kExit, also for code 0
    Time final_at{};
    bool gone = false;
    int exit_code = 0;
  };

  void forgive_own_stall(Time now);
  void check_leases(Time now);
  void check_progress(Time now);
  void check_links(Time now);
  bool everybody_is_heard(Time now) const;
  void fail(Failure failure);
  bool all_joined() const;
  bool all_gone() const;
  void name_the_missed(Time now);
  const Failure* root_cause() const;
  int64_t furthest_step() const;
  Decision decide_stop(const std::string& reason);
  Decision decide_finish();
  int verdict() const;
  int failure_code(const Failure& cause) const;

  const Options options_;
  Phase phase_ = Phase::kGathering;
  std::vector<RankState> ranks_;
  std::vector<Failure> failures_;  // in order of arrival
  HangWatch hang_watch_;
  LinkWatch link_watch_;
  std::optional<StopRequest> stop_;
  std::optional<int> kill_code_;
  std::string kill_reason_;
  Time started_{};
  Time stop_at_{};
  Time settled_at_{};
  Time last_tick_{};
};

}  // namespace ds
