#include "launcher/decide/run_core.h"

#include <algorithm>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/text/amounts.h"

namespace ds {
namespace {

using To = run_action::Tell::To;

constexpr Time kLookPeriod = std::chrono::seconds(2);

std::vector<std::string> hosts_by_rank(const std::vector<RankPlacement>& ranks) {
  std::vector<std::string> out;
  for (const RankPlacement& rank : ranks) out.push_back(rank.host);
  return out;
}

}  // namespace

RunCore::RunCore(Options options, Time now)
    : options_(std::move(options)),
      started_(now),
      recovery_(options_.recovery, NodePool(options_.nodes)),
      growth_(options_.growth) {
  growth_.begun(now);
  if (options_.time_limit) deadline_.emplace(started_, started_ + *options_.time_limit);
}

void RunCore::event(Time now, const RunEvent& event) {
  if (phase_ == Phase::kOver) return;
  std::visit([&](const auto& body) { take(now, body); }, event);
}

std::vector<RunAction> RunCore::ready(Time now) {
  if (actions_.empty()) decide(now);
  return std::exchange(actions_, {});
}

Time RunCore::next_deadline(Time now) const {
  if (phase_ == Phase::kPausing) return next_.resume_at;
  if (!membership_) return Time::max();
  const Time next = membership_->next_deadline();
  // What is due already waits for something else: room in the world, or the end of a pause.
  const Time growth = growth_.next_deadline();
  return growth > now ? std::min(next, growth) : next;
}

void RunCore::tell(To to, std::string line) { act(run_action::Tell{to, std::move(line)}); }

// --- events ------------------------------------------------------------------------------------

void RunCore::take(Time /*now*/, const run_event::EpochClaimed& event) {
  DS_CHECK(phase_ == Phase::kClaiming, "run: epoch {} was claimed, and nobody asked for it",
           event.epoch);
  next_.claimed = event.epoch;
}

// A failure like any other: hosts may be gone by now.
void RunCore::take(Time now, const run_event::StartFailed& event) {
  DS_CHECK(phase_ == Phase::kEpoch && membership_, "run: no epoch was to be started");
  membership_.reset();
  Decision failed;
  failed.kind = Decision::Kind::kStopAll;
  failed.epoch = epoch_;
  failed.reason = event.why;
  failed.root_cause.emplace().kind = Failure::Kind::kNeverJoined;
  failed.root_cause->detail = event.why;
  failed.exit_code = event.exit_code;
  current_.unreachable = event.unusable;
  // Hosts that were gone again before the larger world could start cost a start, but are no failure
  // of the run.
  if (next_.grows && !current_.unreachable.empty()) {
    tell(To::kUserAndWarning, failed.reason);
    for (const std::string& host : std::exchange(current_.unreachable, {})) {
      growth_.lost(now, host);
      recovery_.pool().lose(host);
      tell(To::kLog, fmt::format("host {} cannot be used after all", host));
    }
    current_.restart_decision = recovery_.growth(0);
    if (current_.restart_decision) {
      act(run_action::EndEpoch{.vanished = true});
      phase_ = Phase::kPausing;
      next_.resume_at = now;
      return;
    }
  }
  act(run_action::LearnCause{*failed.root_cause});
  current_.to_judge = std::move(failed);
}

void RunCore::take(Time now, const run_event::CauseLearned& event) {
  DS_CHECK(current_.to_judge, "run: nobody asked for the cause of a failure");
  Decision decision = *std::exchange(current_.to_judge, std::nullopt);
  decision.root_cause = event.cause;
  current_.unreachable.insert(current_.unreachable.begin(), event.lost_hosts.begin(),
                              event.lost_hosts.end());
  judge(now, std::move(decision));
}

void RunCore::take(Time now, const run_event::StepDone& /*event*/) {
  stepped_ = true;
  if (deadline_) deadline_->stepped(now);
}

void RunCore::take(Time now, const run_event::TagCommitted& event) {
  if (deadline_) deadline_->saved(now, event.took);
  current_.committed = true;
  last_tag_ = event.tag;
}

void RunCore::take(Time now, const run_event::StopAsked& event) {
  if (!end_.stop) end_.stop = event.request;
  if (!membership_) return;
  membership_->stop_requested(now, event.request);
  act(run_action::SaveAndEnd{});
}

void RunCore::take(Time now, const run_event::KillAsked& event) {
  if (membership_) membership_->kill_requested(now, event.exit_code, event.why);
}

void RunCore::take(Time now, const run_event::TakenOver& event) {
  end_.taken_over = event.why;
  if (membership_)
    membership_->kill_requested(now, static_cast<int>(ExitCode::kRequeue), event.why);
}

void RunCore::take(Time /*now*/, const run_event::Paused& /*event*/) { paused_ = true; }

void RunCore::take(Time /*now*/, const run_event::Resumed& /*event*/) { paused_ = false; }

void RunCore::take(Time now, const run_event::StoodStill& event) {
  stall_.gap = event.gap;
  stall_.at = now;
}

// Whether a host that was cut off from others reaches them again is tried when nothing runs that
// this could disturb.
void RunCore::take(Time now, const run_event::CandidateAnswered& event) {
  const bool untried = event.problem.empty() && cut_off_.contains(event.host);
  if (!untried) {
    settle_candidate(now, event.host, event.problem);
  } else if (membership_) {
    settle_candidate(now, event.host,
                     "it was cut off from other hosts, and nobody has looked since");
  } else {
    act(run_action::TryLinks{event.host, current_.ranks});
  }
}

void RunCore::take(Time /*now*/, const run_event::RoomSeen& event) {
  if (!awaits_room()) return;  // it was asked for before the wait ended
  if (!next_.free_first) next_.free_first = event.bytes;
  const RestartDecision& decision = *current_.restart_decision;
  next_.has_room = room_has_come(*decision.waits_for_room, narrow<int>(decision.world.size()),
                                 *next_.free_first, event.bytes);
}

void RunCore::take(Time now, const run_event::LinksTried& event) {
  if (event.problem.empty()) cut_off_.erase(event.host);
  settle_candidate(now, event.host, event.problem);
}

// --- decisions ---------------------------------------------------------------------------------

void RunCore::decide(Time now) {
  if (phase_ == Phase::kOver || current_.to_judge) return;
  if (phase_ == Phase::kBegin) return claim(recovery_.first_world());
  look_for_hosts(now);
  check_timeout(now);
  check_deadline(now);
  if (end_.taken_over && !membership_)
    return finish_between(*end_.taken_over, static_cast<int>(ExitCode::kRequeue));
  if (phase_ == Phase::kAwaitingHosts) leave_hosts_missing(now);
  if (phase_ == Phase::kAwaitingRoom) leave_disk_full(now);
  if (phase_ == Phase::kPausing) leave_pause(now);
  if (phase_ == Phase::kClaiming) {
    start_claimed(now);
  } else if (phase_ == Phase::kEpoch) {
    tick(now);
  }
}

void RunCore::claim(std::vector<RankPlacement> ranks) {
  phase_ = Phase::kClaiming;
  next_.claimed.reset();
  next_.ranks = std::move(ranks);
  act(run_action::ClaimEpoch{.ranks = next_.ranks,
                             .at_least = 1 + std::max(epoch_, options_.newest_epoch),
                             .first = first_epoch_ == 0});
}

void RunCore::start_claimed(Time now) {
  if (end_.stop) return end_between();
  if (!next_.claimed) return;
  const bool first = first_epoch_ == 0;
  epoch_ = *std::exchange(next_.claimed, std::nullopt);
  if (first) first_epoch_ = epoch_;
  current_.ranks = std::exchange(next_.ranks, {});
  current_.started = now;
  if (deadline_) deadline_->restarted();
  current_.committed = current_.growing = false;
  Membership::Options options = options_.epoch;
  options.world_size = narrow<int>(current_.ranks.size());
  options.epoch = epoch_;
  options.hosts = hosts_by_rank(current_.ranks);
  membership_.emplace(options, now);
  phase_ = Phase::kEpoch;
  act(run_action::StartEpoch{epoch_, first});
}

void RunCore::tick(Time now) {
  const std::optional<Decision> decision = membership_->tick(now);
  if (!decision) return;
  tell(To::kLog, fmt::format("generation {}: {}", decision->epoch, decision->reason));
  switch (decision->kind) {
    case Decision::Kind::kStart:
      act(run_action::AdmitRanks{});
      break;
    case Decision::Kind::kStopAll:
      if (decision->root_cause) {
        act(run_action::LearnCause{*decision->root_cause});
        current_.to_judge = *decision;
      } else {
        current_.cause.reset();
        act(run_action::ReportFailure{*decision, current_.restart_decision});
        act(run_action::KillRanks{});
      }
      break;
    case Decision::Kind::kFinish:
      epoch_over(now, *decision);
      break;
  }
}

// Whether hosts gave the epoch up because we stood still: 12 s after the last beat that they heard.
bool RunCore::was_given_up(Time now) const {
  constexpr Time kAgentsWait = std::chrono::seconds(11);
  constexpr Time kSeenSince = std::chrono::seconds(10);
  const bool by_agents = !current_.ranks.empty() && !current_.ranks.front().host.empty();
  const bool was_there = current_.started <= stall_.at;
  return by_agents && was_there && stall_.gap >= kAgentsWait && now - stall_.at < kSeenSince;
}

// An epoch failed: what now?
void RunCore::judge(Time now, Decision decision) {
  Failure& cause = *decision.root_cause;
  const bool given_up = was_given_up(now);
  std::vector<std::string> lost = std::exchange(current_.unreachable, {});
  if (given_up) {
    lost.clear();
    cause.detail = fmt::format(
        "dslaunch itself stood still for {}, longer than its agents on the hosts wait for it (12 "
        "s)",
        format_duration(stall_.gap));
  } else {
    lost.insert(lost.end(), cause.without.begin(), cause.without.end());
    cut_off_.insert(cause.without.begin(), cause.without.end());
  }
  for (const std::string& host : lost) growth_.lost(now, host);
  current_.restart_decision = recovery_.after({.cause = cause,
                                               .host = current_.ranks.at(to_size(cause.rank)).host,
                                               .exit_code = decision.exit_code,
                                               .stop_asked = end_.stop.has_value(),
                                               .later = epoch_ > first_epoch_,
                                               .stepped = stepped_,
                                               .committed = current_.committed,
                                               .ran = now - current_.started,
                                               .lost_hosts = lost,
                                               .hosts_may_return = growth_.misses_any(),
                                               .own_stall = given_up});
  current_.cause = cause;
  act(run_action::ReportFailure{decision, current_.restart_decision});
  if (membership_) {
    act(run_action::KillRanks{});
  } else {
    epoch_over(now, decision);
  }
}

void RunCore::epoch_over(Time now, const Decision& decision) {
  membership_.reset();
  const bool saved =
      decision.exit_code == static_cast<int>(ExitCode::kRequeue) && !decision.root_cause;
  if (current_.growing && saved && !end_.stop) {
    // Whatever is there by now; it cannot have become too small for any world.
    current_.restart_decision = recovery_.growth(0);
  }
  if (!current_.restart_decision || !current_.restart_decision->restart) {
    Decision last = decision;
    if (current_.restart_decision) {
      last.root_cause = current_.cause;
      last.reason = current_.restart_decision->reason;
      last.exit_code = current_.restart_decision->exit_code;
    }
    act(run_action::EndEpoch{.exit_code = last.exit_code});
    return finish(std::move(last));
  }
  act(run_action::EndEpoch{});
  announce();
  if (current_.restart_decision->waits_for_hosts) {
    phase_ = Phase::kAwaitingHosts;
    next_.give_up_at = now + options_.recovery.wait_for_hosts;
    next_.look_again_at = now;
  } else if (current_.restart_decision->waits_for_room) {
    phase_ = Phase::kAwaitingRoom;
    next_.give_up_at = now + options_.recovery.wait_for_room;
    next_.free_first.reset();
    next_.has_room = false;
  } else {
    phase_ = Phase::kPausing;
    next_.resume_at = now + current_.restart_decision->wait;
  }
}

void RunCore::announce() {
  const std::string from = (options_.keeps_in_memory ? "memory, or " : "") +
                           (last_tag_.empty() ? std::string("the beginning") : last_tag_);
  const std::string what =
      current_.restart_decision->grows ? "growth"
      : current_.restart_decision->blames_nobody
          ? current_.restart_decision->reason
          : fmt::format("restart {} of {}: {}", recovery_.counted(), recovery_.max_restarts(),
                        current_.restart_decision->reason);
  const std::string next =
      current_.restart_decision->waits_for_hosts
          ? fmt::format("{}: waiting up to {} for lost hosts to come back",
                        recovery_.pool().why_not(),
                        format_duration(options_.recovery.wait_for_hosts))
      : current_.restart_decision->waits_for_room
          ? fmt::format("waiting up to {} for room in {}, then generation {} from {}",
                        format_duration(options_.recovery.wait_for_room), options_.recovery.room_in,
                        epoch_ + 1, from)
          : fmt::format(
                "generation {} with {} from {}{}", epoch_ + 1,
                format_count(narrow<int64_t>(current_.restart_decision->world.size()), "rank"),
                from,
                current_.restart_decision->wait > Time::zero()
                    ? fmt::format(" in {}", format_duration(current_.restart_decision->wait))
                    : "");
  act(run_action::AnnounceNext{*current_.restart_decision, fmt::format("{}; {}", what, next)});
}

void RunCore::leave_pause(Time now) {
  if (end_.stop) return end_between();
  if (now < next_.resume_at) return;
  RestartDecision next = *std::exchange(current_.restart_decision, std::nullopt);
  current_.cause.reset();
  next_.grows = next.grows;
  claim(std::move(next.world));
}

// The user need not wait for an epoch nobody wants any more.
void RunCore::end_between() {
  current_.cause.reset();
  finish_between(end_.stop->why, last_tag_.empty() ? end_.stop->code_when_killed
                                                   : static_cast<int>(end_.stop->code_when_saved));
}

void RunCore::finish_between(const std::string& reason, int exit_code) {
  Decision end;
  end.kind = Decision::Kind::kFinish;
  end.epoch = epoch_;
  end.reason = reason;
  end.exit_code = exit_code;
  end.root_cause = current_.cause;
  finish(std::move(end));
}

void RunCore::finish(Decision end) {
  phase_ = Phase::kOver;
  act(run_action::FinishRun{std::move(end)});
}

void RunCore::check_timeout(Time now) {
  if (!options_.timeout || end_.timed_out || now - started_ < *options_.timeout) return;
  end_.timed_out = true;
  constexpr int kCode = static_cast<int>(ExitCode::kTimeout);
  take(now, run_event::StopAsked{{"--timeout", ExitCode::kTimeout, kCode, kSaveGrace}});
  tell(To::kUserAndLog, "--timeout: saving at the end of this step, then exit 124");
}

void RunCore::check_deadline(Time now) {
  if (!deadline_ || end_.by_deadline || !deadline_->due(now)) return;
  end_.by_deadline = true;
  StopRequest request;
  request.why = "the end of the job's time";
  request.grace = std::max(Time::zero(), deadline_->end() - now);
  take(now, run_event::StopAsked{request});
  tell(To::kUserAndLog,
       fmt::format("{} ends the job in {}: saving at the end of this step, then exit 75",
                   options_.limited_by, format_duration(*request.grace)));
}

// --- hosts that come back or are added ----------------------------------------------------------

bool RunCore::looks_for_hosts() const {
  const bool runs = membership_ && membership_->running();
  return !end_.stop && (runs || phase_ == Phase::kAwaitingHosts);
}

// While an epoch runs, when its hosts are settled and no other one is in use, and while hosts are
// waited for.
void RunCore::look_for_hosts(Time now) {
  if (!looks_for_hosts()) return;
  const bool runs = phase_ == Phase::kEpoch;
  if (!runs && now >= next_.look_again_at) {  // nothing else goes on that many tries would disturb
    growth_.look_now(now);
    next_.look_again_at = now + kLookPeriod;
  }
  for (const std::string& host : growth_.to_try(now)) {
    if (runs && cut_off_.contains(host)) {
      growth_.missed(now, host);  // that its agent answers says nothing of its way to the others
      continue;
    }
    tell(To::kLog, fmt::format("looking for host {}", host));
    act(run_action::SeekHost{host});
  }
  if (runs && !current_.growing && !paused_ && growth_.due(now)) begin_growth(now);
}

void RunCore::settle_candidate(Time now, const std::string& host, const std::string& problem) {
  if (problem.empty()) {
    growth_.found(now, host);
    recovery_.pool().bring_back(host);
    tell(To::kLog, fmt::format("host {} is there", host));
  } else {
    growth_.missed(now, host);
    recovery_.pool().lose(host);
    tell(To::kLog, fmt::format("host {} cannot be used: {}", host, problem));
  }
}

// Too few hosts are left for any world.
void RunCore::leave_hosts_missing(Time now) {
  std::optional<std::vector<RankPlacement>> world = recovery_.pool().next_world();
  if (!end_.stop && !world) {
    if (now < next_.give_up_at) return;
    const RestartDecision end = recovery_.nobody_came(*current_.restart_decision);
    tell(To::kUser, end.reason);
    return finish_between(end.reason, end.exit_code);
  }
  if (world) {
    tell(To::kUserAndLog, fmt::format("hosts are back: generation {} with {}", epoch_ + 1,
                                      format_count(narrow<int64_t>(world->size()), "rank")));
    current_.restart_decision->world = *std::move(world);
  }
  phase_ = Phase::kPausing;
  next_.resume_at = now;
}

// A disk was full when the epoch ended.
void RunCore::leave_disk_full(Time now) {
  if (!end_.stop && !next_.has_room) {
    if (now < next_.give_up_at) return;
    const RestartDecision end = recovery_.no_room_came(*current_.restart_decision);
    tell(To::kUser, end.reason);
    return finish_between(end.reason, end.exit_code);
  }
  if (next_.has_room) {
    tell(To::kUserAndLog,
         fmt::format(
             "there is room again: generation {} with {}", epoch_ + 1,
             format_count(narrow<int64_t>(current_.restart_decision->world.size()), "rank")));
  }
  phase_ = Phase::kPausing;
  next_.resume_at = now;
}

void RunCore::begin_growth(Time now) {
  const auto larger = recovery_.growth(narrow<int>(current_.ranks.size()));
  if (!larger) return;  // they are there for the next failure
  current_.growing = true;
  growth_.grown(now);
  act(run_action::SaveAndEnd{.larger = larger->world.size()});
  tell(To::kUserAndLog,
       fmt::format("{}: saving at the end of this step, then going on with them", larger->reason));
}

std::vector<std::string> RunCore::join(Time now, std::vector<PoolNode> listed) {
  cut_off_.clear();  // whoever says so has repaired the network, or will see it fail again
  std::vector<std::string> added;
  for (PoolNode& node : listed) {
    const std::string host = node.host;
    if (!recovery_.pool().add(std::move(node))) continue;
    growth_.promised(now, host);
    added.push_back(host);
  }
  growth_.look_now(now);
  return added;
}

}  // namespace ds
