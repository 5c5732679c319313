#include "launcher/decide/recovery.h"

#include <algorithm>
#include <set>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

// The same rank in the same way at the same step: what fails again then is the program or its data.
bool same_failure(const Failure& a, const Failure& b) {
  if (a.kind == Failure::Kind::kLinkCut) return false;  // the network
  // An error of a collective, such as a save that failed, is reported by whichever rank is first.
  const bool same_rank = a.rank == b.rank || a.kind == Failure::Kind::kExit;
  return same_rank && a.kind == b.kind && a.value == b.value && a.step == b.step;
}

}  // namespace

bool may_pass(const Failure& cause) {
  if (cause.kind != Failure::Kind::kExit || cause.blame == Blame::kPeer) {
    return true;
  }
  switch (static_cast<ExitCode>(cause.value)) {
    case ExitCode::kStorage:  // disks fail for a while, and are full until somebody makes room
      return true;
    case ExitCode::kTrainingFailed:
    case ExitCode::kUsage:
    case ExitCode::kBadData:
    case ExitCode::kInputMissing:
    case ExitCode::kClusterUnusable:
    case ExitCode::kInternal:
    case ExitCode::kBelowMinimum:
    case ExitCode::kValidation:
    case ExitCode::kConfig:
      return false;
    default:
      return true;  // a library's exit(), which is a crash by another name
  }
}

Recovery::Recovery(const Options& options, NodePool pool)
    : options_(options), pool_(std::move(pool)) {}

std::vector<RankPlacement> Recovery::first_world() const {
  std::optional<std::vector<RankPlacement>> world = pool_.next_world();
  if (!world) {
    throw ConfigError(pool_.why_not());
  }
  return *std::move(world);
}

RestartDecision Recovery::end(int exit_code, const std::string& reason) const {
  RestartDecision out;
  out.reason = reason;
  out.exit_code = exit_code;
  return out;
}

std::optional<RestartDecision> Recovery::growth(int ranks) const {
  std::optional<std::vector<RankPlacement>> world = pool_.next_world();
  if (!world || narrow<int>(world->size()) <= ranks) return std::nullopt;
  RestartDecision out;
  out.restart = out.grows = true;
  out.exit_code = 0;
  out.reason = fmt::format("there are nodes for {} ranks", world->size());
  out.world = *std::move(world);
  return out;
}

RestartDecision Recovery::nobody_came(const RestartDecision& waited) const {
  return end(static_cast<int>(ExitCode::kBelowMinimum),
             fmt::format("{}; {}, and after {} s not enough have come back", waited.reason,
                         pool_.why_not(),
                         std::chrono::ceil<std::chrono::seconds>(options_.wait_for_hosts).count()));
}

RestartDecision Recovery::no_room_came(const RestartDecision& waited) const {
  return end(waited.exit_code,
             fmt::format("{}; no room has come in {} s (--wait-for-room)", waited.reason,
                         std::chrono::ceil<std::chrono::seconds>(options_.wait_for_room).count()));
}

// A restart makes the same steps again, and ends in the same way where the disk is as full then.
std::string Recovery::why_no_room_can_come(const EpochOutcome& outcome) const {
  if (!outcome.stepped) return "this launch has made no step yet, so it is not restarted";
  if (options_.wait_for_room <= Time::zero()) return "nobody waits for room (--wait-for-room)";
  if (outcome.cause.detail.find(options_.room_in) == std::string::npos) {
    return "only the room of the run directory is watched, so it is not restarted";
  }
  return "";
}

// The same world again: it counts as no restart, and nobody is to be left out.
RestartDecision Recovery::after_own_stall(const EpochOutcome& outcome) {
  std::optional<std::vector<RankPlacement>> world = pool_.next_world();
  if (outcome.stop_asked || options_.max_restarts == 0 || !world)
    return end(outcome.exit_code, describe(outcome.cause));
  ++restarts_;
  RestartDecision out = end(outcome.exit_code, outcome.cause.detail);
  out.restart = out.blames_nobody = true;
  out.world = *std::move(world);
  return out;
}

RestartDecision Recovery::after(const EpochOutcome& outcome) {
  if (outcome.own_stall) return after_own_stall(outcome);
  for (const std::string& host : outcome.lost_hosts) {
    pool_.lose(host);
  }
  if (outcome.committed && outcome.ran >= options_.healthy_after) {
    counted_ = 0;
    past_.clear();
  }
  past_.push_back({outcome.cause, outcome.host});
  while (past_.size() > to_size(options_.same_failure_limit)) past_.pop_front();

  const bool first_launch =
      outcome.cause.kind == Failure::Kind::kNeverJoined && restarts_ == 0 && !outcome.later;
  if (outcome.stop_asked || options_.max_restarts == 0 || !may_pass(outcome.cause) ||
      first_launch) {
    return end(outcome.exit_code, describe(outcome.cause));
  }
  const std::optional<LackOfRoom> lack = lack_of_room(outcome.cause);
  if (const std::string why = lack ? why_no_room_can_come(outcome) : ""; !why.empty()) {
    return end(outcome.exit_code, fmt::format("{}; {}", describe(outcome.cause), why));
  }
  if (repeats()) {
    if (!pool_.has_several_nodes() || repeats_on_several_hosts()) {
      return end(outcome.exit_code,
                 fmt::format("{}; the same failure came {} times in a row, so it "
                             "is the program or its data, not the hardware",
                             describe(outcome.cause), options_.same_failure_limit));
    }
    pool_.lose(outcome.host);  // always on one host: leave that out
    past_.clear();
  }
  if (counted_ >= options_.max_restarts) {
    return end(static_cast<int>(ExitCode::kBelowMinimum),
               fmt::format("{}; all {} restarts are used up", describe(outcome.cause),
                           options_.max_restarts));
  }
  std::optional<std::vector<RankPlacement>> world = pool_.next_world();
  const bool may_wait = outcome.hosts_may_return && options_.wait_for_hosts > Time::zero();
  if (!world && !may_wait) {
    return end(static_cast<int>(ExitCode::kBelowMinimum),
               fmt::format("{}; {}", describe(outcome.cause), pool_.why_not()));
  }
  Time wait = Time::zero();
  if (outcome.committed) fruitless_ = 0;
  if (fruitless_ > 0) {
    const int doublings = std::min(fruitless_ - 1, 20);
    wait = std::min(options_.longest_wait, options_.first_wait * (int64_t{1} << doublings));
  }
  ++fruitless_;
  ++counted_;
  ++restarts_;
  return {.restart = true,
          .grows = false,
          .blames_nobody = false,
          .waits_for_hosts = !world,
          .waits_for_room = lack,
          .reason = describe(outcome.cause),
          .exit_code = outcome.exit_code,
          .wait = wait,
          .world = std::move(world).value_or(std::vector<RankPlacement>{})};
}

bool Recovery::repeats() const {
  return past_.size() == to_size(options_.same_failure_limit) &&
         std::ranges::all_of(past_, [&](const PastFailure& other) {
           return same_failure(other.cause, past_.back().cause);
         });
}

bool Recovery::repeats_on_several_hosts() const {
  std::set<std::string> hosts;
  for (const PastFailure& failure : past_) hosts.insert(failure.host);
  return hosts.size() > 1;
}

}  // namespace ds
