// What a run does next (pure): its life over all epochs as one state machine without clock, thread,
// process or file. Whoever runs it tells what was seen (event(), and membership() for what ranks
// say), and carries out what ready() returns, in that order, before it asks again:
//
//   claiming --claimed--> epoch --over--> pausing --time--> claiming ...
//                           |                ^
//                           +--too few hosts-+--> awaiting hosts
//                           +--disk full-----+--> awaiting room
//
// and from everywhere to over. Membership decides within an epoch, Recovery what comes after it,
// Growth when lost hosts are looked for, DeadlineWatch when the job has to end. It refuses to know
// how anything of this is done.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/decide/recovery.h"
#include "launcher/decide/watch/deadline_watch.h"
#include "launcher/decide/watch/growth.h"
#include "launcher/decide/watch/membership.h"

namespace ds {

inline constexpr Time kSaveGrace =
    std::chrono::seconds(30);  // to save after TERM, Ctrl-C or --timeout

// What happens to a run. Ranks are not in here: membership() is told what they say.
namespace run_event {

struct EpochClaimed {  // answers ClaimEpoch
  int64_t epoch = 0;
};
struct StartFailed {  // answers StartEpoch, where the epoch could not be started
  std::string why;
  int exit_code = 1;
  std::vector<std::string> unusable;  // hosts
};
struct CauseLearned {  // answers LearnCause
  Failure cause;       // in better words, where there are any
  std::vector<std::string> lost_hosts;
};
struct StepDone {};
struct TagCommitted {
  std::string tag;
  Time took{};
};
struct StopAsked {
  StopRequest request;
};
struct KillAsked {
  int exit_code = 1;
  std::string why;
};
struct TakenOver {  // by another launcher
  std::string why;
};
struct Paused {};  // by the user, whatever epoch it is
struct Resumed {};
struct StoodStill {  // the launcher itself
  Time gap{};
};
struct CandidateAnswered {  // something became known of a host that SeekHost named
  std::string host;
  std::string problem;  // why it cannot be used; empty: it can
};
struct RoomSeen {  // on the disk of the run directory, while awaits_room()
  int64_t bytes = 0;
};
struct LinksTried {  // answers TryLinks
  std::string host;
  std::string problem;
};

}  // namespace run_event

using RunEvent =
    std::variant<run_event::EpochClaimed, run_event::StartFailed, run_event::CauseLearned,
                 run_event::StepDone, run_event::TagCommitted, run_event::StopAsked,
                 run_event::KillAsked, run_event::TakenOver, run_event::Paused, run_event::Resumed,
                 run_event::StoodStill, run_event::CandidateAnswered, run_event::LinksTried,
                 run_event::RoomSeen>;

// What is to be done.
namespace run_action {

struct ClaimEpoch {  // for these ranks, which are all there will be of the next epoch
  std::vector<RankPlacement> ranks;
  int64_t at_least = 1;  // the number
  bool first = false;    // of this launch: nothing is tried twice
};
struct StartEpoch {
  int64_t epoch = 0;
  bool first = false;
};
struct AdmitRanks {};
struct SaveAndEnd {   // every rank is asked to
  size_t larger = 0;  // for a world of so many ranks; 0: for good
};
struct LearnCause {  // of an epoch that failed; nothing else happens before the answer
  Failure cause;
};
struct ReportFailure {
  Decision decision;
  std::optional<RestartDecision> restart_decision;  // none: somebody wanted it killed
};
struct KillRanks {};
struct EndEpoch {                  // frees all that it had
  bool vanished = false;           // its hosts were gone before it could begin, which is no failure
  std::optional<int> exit_code{};  // with which the run ends after it; none: it goes on
};
struct AnnounceNext {
  RestartDecision restart_decision;
  std::string line;
};
struct FinishRun {
  Decision end;
};
struct SeekHost {  // without waiting
  std::string host;
};
struct TryLinks {  // of a host that was cut off, to those of the epoch before; takes seconds
  std::string host;
  std::vector<RankPlacement> ranks;
};
struct Tell {
  enum class To { kUserAndLog, kUser, kUserAndWarning, kLog };
  To to = To::kUserAndLog;
  std::string line;
};

}  // namespace run_action

using RunAction =
    std::variant<run_action::ClaimEpoch, run_action::StartEpoch, run_action::AdmitRanks,
                 run_action::SaveAndEnd, run_action::LearnCause, run_action::ReportFailure,
                 run_action::KillRanks, run_action::EndEpoch, run_action::AnnounceNext,
                 run_action::FinishRun, run_action::SeekHost, run_action::TryLinks,
                 run_action::Tell>;

class RunCore {
 public:
  struct Options {
    Recovery::Options recovery{};
    NodePool::Options nodes{};
    Growth::Options growth{};
    Membership::Options epoch{};  // of each; its number, ranks and hosts are filled in
    int64_t newest_epoch = 0;     // that the hosts know of
    bool keeps_in_memory = false;
    std::optional<Time> timeout{};     // from the start until it is stopped
    std::optional<Time> time_limit{};  // from the start until somebody ends the job
    std::string limited_by{};          // who does
  };

  RunCore(Options options, Time now);

  void event(Time now, const RunEvent& event);
  // What is to be done next; to be carried out and asked again until it is nothing. The first call
  // claims the first epoch, and throws ConfigError where no world can be made.
  std::vector<RunAction> ready(Time now);
  // When ready() may have something although nothing happens.
  Time next_deadline(Time now) const;

  // Hosts that were listed by now, for a run that may grow; returns those that are new, and looks
  // for all that are missing. Throws Unsupported where the size of the world is fixed.
  std::vector<std::string> join(Time now, std::vector<PoolNode> listed);

  // Returns the membership of the current epoch; null between epochs.
  Membership* membership() { return membership_ ? &*membership_ : nullptr; }
  const Membership* membership() const { return membership_ ? &*membership_ : nullptr; }
  int64_t epoch() const { return epoch_; }  // the newest
  int64_t first_epoch() const { return first_epoch_; }
  bool claims() const { return phase_ == Phase::kClaiming; }  // the next epoch's number
  bool looks_for_hosts() const;                               // CandidateAnswered is wanted
  bool awaits_room() const { return phase_ == Phase::kAwaitingRoom; }  // RoomSeen is wanted
  bool stopping() const { return end_.stop.has_value(); }
  bool paused() const { return paused_; }
  bool failed() const {
    return current_.restart_decision.has_value();
  }  // the epoch, and it is known what follows
  int restarts() const { return recovery_.restarts(); }
  const std::optional<DeadlineWatch>& deadline() const { return deadline_; }

 private:
  enum class Phase { kBegin, kClaiming, kEpoch, kPausing, kAwaitingHosts, kAwaitingRoom, kOver };

  struct EpochAtHand {
    std::vector<RankPlacement> ranks;
    Time started{};
    bool committed = false;                // a tag in this epoch
    bool growing = false;                  // it was asked to end so that a larger one can begin
    std::optional<Decision> to_judge;      // what has failed, until the cause is known
    std::vector<std::string> unreachable;  // hosts that failed before the epoch could start
    std::optional<RestartDecision> restart_decision;  // decided when the epoch failed
    std::optional<Failure> cause;                     // of that
  };
  struct NextEpoch {
    std::vector<RankPlacement> ranks;
    bool grows = false;
    std::optional<int64_t> claimed;
    Time resume_at{};                     // when it starts
    Time give_up_at{};                    // how long lost hosts have to come back, or room to come
    Time look_again_at{};                 // for those
    std::optional<int64_t> free_first{};  // bytes that were free when the wait for room began
    bool has_room = false;
  };
  struct AskedEnd {  // of the run, whatever epoch it came in
    std::optional<StopRequest> stop;
    std::optional<std::string> taken_over;
    bool timed_out = false;
    bool by_deadline = false;
  };
  struct Stall {  // the last one of ours
    Time gap{};
    Time at{};
  };

  void take(Time now, const run_event::EpochClaimed& event);
  void take(Time now, const run_event::StartFailed& event);
  void take(Time now, const run_event::CauseLearned& event);
  void take(Time now, const run_event::StepDone& event);
  void take(Time now, const run_event::TagCommitted& event);
  void take(Time now, const run_event::StopAsked& event);
  void take(Time now, const run_event::KillAsked& event);
  void take(Time now, const run_event::TakenOver& event);
  void take(Time now, const run_event::Paused& event);
  void take(Time now, const run_event::Resumed& event);
  void take(Time now, const run_event::StoodStill& event);
  void take(Time now, const run_event::CandidateAnswered& event);
  void take(Time now, const run_event::LinksTried& event);
  void take(Time now, const run_event::RoomSeen& event);

  template <typename Action>
  void act(Action action) {
    actions_.emplace_back(std::move(action));
  }
  void tell(run_action::Tell::To to, std::string line);
  void decide(Time now);
  void claim(std::vector<RankPlacement> ranks);
  void start_claimed(Time now);
  void tick(Time now);
  void judge(Time now, Decision decision);
  bool was_given_up(Time now) const;
  void epoch_over(Time now, const Decision& decision);
  void announce();
  void leave_pause(Time now);
  void end_between();
  void finish_between(const std::string& reason, int exit_code);
  void finish(Decision end);
  void look_for_hosts(Time now);
  void settle_candidate(Time now, const std::string& host, const std::string& problem);
  void leave_hosts_missing(Time now);
  void leave_disk_full(Time now);
  void begin_growth(Time now);
  void check_timeout(Time now);
  void check_deadline(Time now);

  const Options options_;
  const Time started_;
  Recovery recovery_;
  Growth growth_;
  std::optional<DeadlineWatch> deadline_;
  Phase phase_ = Phase::kBegin;
  std::vector<RunAction> actions_;
  std::optional<Membership> membership_;
  int64_t epoch_ = 0;
  int64_t first_epoch_ = 0;
  EpochAtHand current_;
  NextEpoch next_;
  AskedEnd end_;
  std::string last_tag_;           // empty: nothing is committed
  std::set<std::string> cut_off_;  // hosts whose ways to the others nobody has tried since
  bool stepped_ = false;           // in any epoch
  bool paused_ = false;
  Stall stall_;
};

}  // namespace ds
