// Whether a run goes on after an epoch has failed, when, and where (pure): restarts are counted,
// causes are classified, waits grow, nodes that were lost are left out. Membership
// (launcher/decide/watch/membership.h) is the life of one epoch; this is the life of the run across
// them. It refuses to know how an epoch is started.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "launcher/decide/ending/room.h"
#include "launcher/decide/node_pool.h"
#include "launcher/decide/watch/membership.h"

namespace ds {

// What became of an epoch that was not meant to end.
struct EpochOutcome {
  Failure cause;
  std::string host;         // where the cause happened, as the pool calls it
  int exit_code = 1;        // of the run, if it ends with this
  bool stop_asked = false;  // by the user, who does not want another epoch
  bool later = false;       // an epoch of this launch has run before it
  bool stepped = false;     // this launch has made a step, in this epoch or before
  bool committed = false;   // the epoch left a tag that was not there before it
  Time ran{};
  std::vector<std::string> lost_hosts;
  bool hosts_may_return = false;  // some are missing, and somebody looks for them
  bool own_stall = false;  // the launcher stood still for so long that hosts gave it up: nothing of
                           // theirs failed
};

struct RestartDecision {
  bool restart = false;
  bool grows = false;            // nothing had failed: there are more nodes
  bool blames_nobody = false;    // but the launcher itself: no restart is used up
  bool waits_for_hosts = false;  // too few are left: `world` is empty until enough have come back
  // A disk was full: where nobody makes room, the same steps would end in the same way.
  std::optional<LackOfRoom> waits_for_room{};
  std::string reason;
  int exit_code = 1;                 // where it is the end
  Time wait{};                       // where it is not
  std::vector<RankPlacement> world;  //
};

class Recovery {
 public:
  struct Options {
    int max_restarts = 3;  // 0: every failure is the end, with its own exit code
    // Before the second restart in a row that has no commit to show; doubled for each after it.
    Time first_wait = std::chrono::seconds(1);
    Time longest_wait = std::chrono::seconds(60);
    int same_failure_limit = 3;
    // With too few nodes left: how long lost ones have to come back. Zero: that is the end.
    Time wait_for_hosts{};
    // After a save that found no room: how long room has to come, on the disk of this directory,
    // which is looked at. Zero: that is the end.
    Time wait_for_room{};
    std::string room_in{};
    // An epoch that committed and ran so long was healthy: restarts before it are forgotten.
    Time healthy_after = std::chrono::minutes(10);
  };

  Recovery(const Options& options, NodePool pool);

  // The first world. Throws ConfigError if there is none.
  std::vector<RankPlacement> first_world() const;
  // After the failure of an epoch.
  RestartDecision after(const EpochOutcome& outcome);
  // The world of the nodes that are there, if it is larger than one of `ranks`. It is no restart
  // and counts as none.
  std::optional<RestartDecision> growth(int ranks) const;
  // Too few hosts have come back in time.
  RestartDecision nobody_came(const RestartDecision& waited) const;
  // Nor has room.
  RestartDecision no_room_came(const RestartDecision& waited) const;

  int restarts() const { return restarts_; }  // of the whole run
  int counted() const { return counted_; }    // against the limit
  int max_restarts() const { return options_.max_restarts; }
  NodePool& pool() { return pool_; }

 private:
  struct PastFailure {
    Failure cause;
    std::string host;
  };
  std::string why_no_room_can_come(const EpochOutcome& outcome) const;  // empty: it can
  bool repeats() const;
  bool repeats_on_several_hosts() const;
  RestartDecision end(int exit_code, const std::string& reason) const;
  RestartDecision after_own_stall(const EpochOutcome& outcome);

  const Options options_;
  NodePool pool_;
  int restarts_ = 0;
  int counted_ = 0;
  int fruitless_ = 0;             // restarts in a row without a commit between
  std::deque<PastFailure> past_;  // the last same_failure_limit ones
};

// Whether the same program may succeed when it is started again: crashes, silence and lost peers
// yes; what the rank itself found wrong (data, configuration, numbers) no.
bool may_pass(const Failure& cause);

}  // namespace ds
