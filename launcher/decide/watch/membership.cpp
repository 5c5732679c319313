#include "launcher/decide/watch/membership.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/values/index.h"

namespace ds {
namespace {

// A code outside the table comes from a library that called exit(): the rank failed.
int table_code(int code) {
  constexpr std::array kTable{0, 1, 65, 66, 69, 70, 74, 75, 76, 77, 78, 124};
  return std::ranges::find(kTable, code) != kTable.end()
             ? code
             : static_cast<int>(ExitCode::kTrainingFailed);
}

bool ends_well(int code) {
  return code == static_cast<int>(ExitCode::kDone) || code == static_cast<int>(ExitCode::kRequeue);
}

Failure cut_of(const LinkWatch::Verdict& verdict, Time now) {
  Failure out{verdict.rank, Failure::Kind::kLinkCut, 0, Blame::kOwn, verdict.words, now, 0};
  out.without = verdict.without;
  return out;
}

}  // namespace

std::string describe(const Failure& failure) {
  std::string what;
  switch (failure.kind) {
    case Failure::Kind::kSignal:
      what = fmt::format("rank {} was killed by signal {} ({})", failure.rank, failure.value,
                         strsignal(failure.value));
      break;
    case Failure::Kind::kExit:
      what = fmt::format("rank {} ended with code {}", failure.rank, failure.value);
      break;
    case Failure::Kind::kLease:
      what = fmt::format("rank {} stopped answering", failure.rank);
      break;
    case Failure::Kind::kNeverJoined:
      what = fmt::format("rank {} did not join", failure.rank);
      break;
    case Failure::Kind::kHungAtStart:
      what = fmt::format("rank {} hangs before it has joined", failure.rank);
      break;
    case Failure::Kind::kHang:
      what = fmt::format("rank {} hangs", failure.rank);
      break;
    case Failure::Kind::kUnreported:
      what =
          fmt::format("rank {} exited with code {} without a report", failure.rank, failure.value);
      break;
    case Failure::Kind::kHostLost:
      what = fmt::format("rank {} is gone", failure.rank);
      break;
    case Failure::Kind::kLinkCut:
      what = "the network between hosts is cut";
      break;
  }
  return failure.detail.empty() ? what : fmt::format("{}: {}", what, failure.detail);
}

Membership::Membership(const Options& options, Time now)
    : options_(options),
      hang_watch_(options.hang, options.world_size),
      link_watch_(options.links, options.hosts),
      started_(now),
      last_tick_(now) {
  DS_CHECK(options.world_size > 0, "membership: world_size is {}, expected at least 1",
           options.world_size);
  ranks_.resize(to_size(options.world_size));
}

std::optional<std::string> Membership::joined(Time now, const WorldMember& member) {
  if (member.epoch != options_.epoch) {
    return fmt::format("generation {} is over; this is generation {}", member.epoch,
                       options_.epoch);
  }
  if (member.rank < 0 || member.rank >= options_.world_size) {
    return fmt::format("rank {} is outside a world of {}", member.rank, options_.world_size);
  }
  RankState& rank = nth(ranks_, member.rank);
  if (rank.member) {
    return fmt::format("rank {} is held by pid {} on {}", member.rank, rank.member->pid,
                       rank.member->host);
  }
  if (phase_ != Phase::kGathering) {
    return "the world is not gathering";
  }
  rank.member = member;
  rank.heard = now;
  return std::nullopt;
}

bool Membership::heartbeat(Time now, int64_t epoch, int rank, const RankProgress& progress) {
  if (epoch != options_.epoch || rank < 0 || rank >= options_.world_size) {
    return false;
  }
  RankState& state = nth(ranks_, rank);
  if (!state.member || state.gone) {
    return false;
  }
  state.heard = now;
  state.progress = progress;
  if (!state.final_report) {
    hang_watch_.progressed(now, rank, progress);
  }
  return true;
}

void Membership::links_reported(Time now, int rank, const std::vector<CutLink>& links) {
  link_watch_.reported(now, rank, links);
}

bool Membership::stepped(Time now, int64_t epoch, int rank, int64_t step) {
  if (rank < 0 || rank >= options_.world_size) {
    return false;
  }
  RankProgress progress = nth(ranks_, rank).progress;
  progress.step = step;
  progress.micro_step = 0;
  return heartbeat(now, epoch, rank, progress);
}

void Membership::reported_end(Time now, int rank, int exit_code, Blame blame,
                              const std::string& error) {
  RankState& state = ranks_.at(to_size(rank));
  state.final_report =
      Failure{rank, Failure::Kind::kExit, exit_code, blame, error, now, state.progress.step};
  state.final_at = now;
  hang_watch_.left(rank);
  if (!ends_well(exit_code)) {
    fail(*state.final_report);
  }
}

void Membership::ended(Time now, int rank, int exit_code, int signal) {
  RankState& state = ranks_.at(to_size(rank));
  if (state.gone) {
    return;
  }
  state.gone = true;
  hang_watch_.left(rank);
  state.exit_code = exit_code;
  if (phase_ == Phase::kStopping || phase_ == Phase::kOver) {
    return;  // we killed it
  }
  if (signal != 0) {
    fail({rank, Failure::Kind::kSignal, signal, Blame::kOwn, "", now, state.progress.step});
  } else if (!state.final_report) {
    const bool told_nothing = state.member || ends_well(exit_code);
    fail({rank, told_nothing ? Failure::Kind::kUnreported : Failure::Kind::kExit, exit_code,
          Blame::kOwn, "", now, state.progress.step});
  }
}

void Membership::host_lost(Time now, int rank, const std::string& why) {
  RankState& state = ranks_.at(to_size(rank));
  if (state.gone) {
    return;
  }
  state.gone = true;
  hang_watch_.left(rank);
  state.exit_code = static_cast<int>(ExitCode::kBelowMinimum);
  fail({rank, Failure::Kind::kHostLost, 0, Blame::kOwn, why, now, state.progress.step});
}

void Membership::fail(Failure failure) {
  // No story of the rank that it is told with.
  const bool of_network = failure.kind == Failure::Kind::kLinkCut;
  const bool known = !of_network && std::ranges::any_of(failures_, [&](const Failure& other) {
    return other.rank == failure.rank;
  });
  if (known || phase_ == Phase::kStopping || phase_ == Phase::kOver) {
    return;  // the first failure of a rank is its own story; later ones are our doing
  }
  if (phase_ != Phase::kSettling) {
    phase_ = Phase::kSettling;
    settled_at_ = failure.at + options_.settle;
  }
  failure.step = furthest_step();
  failures_.push_back(std::move(failure));
}

void Membership::stop_requested(Time now, const StopRequest& request) {
  if (!stop_) {
    stop_at_ = now;
    stop_ = request;
  }
}

void Membership::kill_requested(Time now, int exit_code, const std::string& why) {
  static_cast<void>(now);
  if (!kill_code_) {
    kill_code_ = exit_code;
    kill_reason_ = why;
  }
}

// If we did not run, we could not listen: silence of that time is nobody's, and no deadline has
// come nearer.
void Membership::forgive_own_stall(Time now) {
  const Time gap = now - last_tick_;
  last_tick_ = now;
  if (gap <= options_.lease / 2) return;
  const auto later = [&](Time& at) { at = std::min(now, at + gap); };
  hang_watch_.forgive(gap);
  link_watch_.forget();
  later(started_);
  later(stop_at_);
  for (RankState& rank : ranks_) {
    later(rank.heard);
    later(rank.final_at);
  }
}

void Membership::check_leases(Time now) {
  for (int r = 0; r < options_.world_size; ++r) {
    const RankState& rank = nth(ranks_, r);
    if (rank.gone) {
      continue;
    }
    if (phase_ == Phase::kGathering && !rank.member && now - started_ > options_.join_timeout) {
      fail({r, Failure::Kind::kHungAtStart, 0, Blame::kOwn,
            fmt::format("its process is there, and has not been heard for {:.0f} s "
                        "(--join-timeout)",
                        seconds_of(options_.join_timeout)),
            now, 0});
    } else if (rank.final_report && now - rank.final_at > options_.exit_grace) {
      fail({r, Failure::Kind::kLease, 0, Blame::kOwn,
            fmt::format("it reported its end {:.0f} s ago but is still there",
                        seconds_of(now - rank.final_at)),
            now, rank.progress.step});
    } else if (phase_ == Phase::kRunning && !rank.final_report &&
               now - rank.heard > options_.lease) {
      fail({r, Failure::Kind::kLease, 0, Blame::kOwn,
            fmt::format("no heartbeat for {:.1f} s", seconds_of(now - rank.heard)), now,
            rank.progress.step});
    }
  }
}

void Membership::check_progress(Time now) {
  if (phase_ != Phase::kRunning) {
    return;
  }
  if (const std::optional<HangWatch::Hang> hang = hang_watch_.hung(now)) {
    fail({hang->rank, Failure::Kind::kHang, 0, Blame::kOwn, hang->words, now, 0});
  }
}

// A host that is gone is also one that nobody reaches: whoever is silent decides that, by the
// lease.
bool Membership::everybody_is_heard(Time now) const {
  return std::ranges::all_of(ranks_, [&](const RankState& rank) {
    return !rank.gone && (rank.final_report || now - rank.heard <= options_.lease / 2);
  });
}

void Membership::check_links(Time now) {
  if (phase_ != Phase::kRunning || !everybody_is_heard(now)) return;
  if (const std::optional<LinkWatch::Verdict> verdict = link_watch_.verdict(now))
    fail(cut_of(*verdict, now));
}

// When all that is known is that peers were missed: the rank they missed may have fallen silent,
// with its lease not over yet, be cut off from them alone, or still be there, stuck.
void Membership::name_the_missed(Time now) {
  const bool echoes_only = std::ranges::all_of(
      failures_, [](const Failure& failure) { return failure.blame == Blame::kPeer; });
  if (!echoes_only) {
    return;
  }
  const auto silence = [&](const RankState& rank) {
    return rank.gone || rank.final_report ? Time::zero() : now - rank.heard;
  };
  const auto longest = std::ranges::max_element(ranks_, {}, silence);
  if (silence(*longest) > options_.lease / 2) {
    const auto number = static_cast<int>(longest - ranks_.begin());
    fail({number, Failure::Kind::kLease, 0, Blame::kOwn,
          fmt::format("no heartbeat for {:.1f} s, and its peers miss it",
                      seconds_of(silence(*longest))),
          now, longest->progress.step});
  } else if (const auto cut = link_watch_.suspected()) {
    fail(cut_of(*cut, now));
  } else if (const auto hang = hang_watch_.awaited(now)) {
    fail({hang->rank, Failure::Kind::kHang, 0, Blame::kOwn, hang->words, now, 0});
  }
}

std::optional<Decision> Membership::tick(Time now) {
  forgive_own_stall(now);
  if (phase_ == Phase::kOver) {
    return std::nullopt;
  }
  if (phase_ == Phase::kStopping) {
    return all_gone() ? std::optional(decide_finish()) : std::nullopt;
  }
  if (kill_code_) {
    return decide_stop(kill_reason_);
  }
  check_leases(now);
  check_progress(now);
  check_links(now);
  if (phase_ == Phase::kSettling) {
    if (now < settled_at_ && !all_gone()) {
      return std::nullopt;
    }
    name_the_missed(now);
    return decide_stop(describe(*root_cause()));
  }
  if (stop_ && stop_->grace && now - stop_at_ > *stop_->grace) {
    kill_code_ = stop_->code_when_killed;
    kill_reason_ =
        fmt::format("{}: not saved within {:.0f} s", stop_->why, seconds_of(*stop_->grace));
    return decide_stop(kill_reason_);
  }
  if (all_gone()) {
    return decide_finish();
  }
  if (phase_ == Phase::kGathering && all_joined()) {
    phase_ = Phase::kRunning;
    Decision start{Decision::Kind::kStart, options_.epoch, "", {}, std::nullopt, 0};
    start.reason = fmt::format("all {} ranks joined", options_.world_size);
    for (RankState& rank : ranks_) {
      rank.heard = now;
      start.world.push_back(*rank.member);
    }
    return start;
  }
  return std::nullopt;
}

Time Membership::next_deadline() const {
  Time next = Time::max();
  if (phase_ == Phase::kSettling) {
    next = settled_at_;
  }
  if (phase_ == Phase::kGathering) {
    next = started_ + options_.join_timeout;
  }
  if (stop_ && stop_->grace && phase_ != Phase::kStopping && phase_ != Phase::kOver) {
    next = std::min(next, stop_at_ + *stop_->grace);
  }
  if (phase_ == Phase::kRunning) {
    next = std::min({next, hang_watch_.next_deadline(), link_watch_.next_deadline()});
  }
  for (const RankState& rank : ranks_) {
    if (phase_ == Phase::kRunning && !rank.gone) {
      next = std::min(next, rank.final_report ? rank.final_at + options_.exit_grace
                                              : rank.heard + options_.lease);
    }
  }
  return next;
}

bool Membership::all_joined() const {
  return std::ranges::all_of(ranks_, [](const RankState& r) { return r.member.has_value(); });
}

bool Membership::all_gone() const {
  return std::ranges::all_of(ranks_, [](const RankState& r) { return r.gone; });
}

const Failure* Membership::root_cause() const {
  // The earliest failure that is nobody's echo; a rank that only lost its peer comes last.
  const auto first = std::ranges::min_element(failures_, [](const Failure& a, const Failure& b) {
    return std::tuple(a.blame == Blame::kPeer, a.at, a.rank) <
           std::tuple(b.blame == Blame::kPeer, b.at, b.rank);
  });
  return first == failures_.end() ? nullptr : &*first;
}

// Ranks step together, and heartbeats are a second apart: the furthest report is where everybody
// was.
int64_t Membership::furthest_step() const {
  int64_t step = 0;
  for (const RankState& rank : ranks_) step = std::max(step, rank.progress.step);
  return step;
}

Decision Membership::decide_stop(const std::string& reason) {
  phase_ = Phase::kStopping;
  Decision stop{Decision::Kind::kStopAll, options_.epoch, reason, {}, std::nullopt, verdict()};
  if (const Failure* cause = root_cause()) {
    stop.root_cause = *cause;
  }
  return stop;
}

Decision Membership::decide_finish() {
  phase_ = Phase::kOver;
  Decision finish{Decision::Kind::kFinish, options_.epoch, "", {}, std::nullopt, verdict()};
  if (const Failure* cause = root_cause()) {
    finish.root_cause = *cause;
    finish.reason = describe(*cause);
  } else if (kill_code_) {
    finish.reason = kill_reason_;
  } else {
    finish.reason = stop_ && finish.exit_code != 0 ? stop_->why : "every rank is done";
  }
  return finish;
}

int Membership::verdict() const {
  if (kill_code_) {
    return *kill_code_;
  }
  if (const Failure* cause = root_cause()) {
    return failure_code(*cause);
  }
  const bool saved = std::ranges::any_of(ranks_, [](const RankState& rank) {
    return rank.exit_code == static_cast<int>(ExitCode::kRequeue);
  });
  if (!saved) {
    return 0;
  }
  return static_cast<int>(stop_ ? stop_->code_when_saved : ExitCode::kRequeue);
}

int Membership::failure_code(const Failure& cause) const {
  switch (cause.kind) {
    case Failure::Kind::kExit:
      return table_code(cause.value);
    case Failure::Kind::kNeverJoined:
    case Failure::Kind::kHungAtStart:
      return static_cast<int>(ExitCode::kClusterUnusable);
    case Failure::Kind::kHostLost:
    case Failure::Kind::kLinkCut:
      return static_cast<int>(ExitCode::kBelowMinimum);
    case Failure::Kind::kSignal:
      return 128 + cause.value;
    case Failure::Kind::kLease:
    case Failure::Kind::kHang:
    case Failure::Kind::kUnreported:
      break;
  }
  return static_cast<int>(ExitCode::kTrainingFailed);
}

std::vector<Membership::RankView> Membership::ranks(Time now) const {
  std::vector<RankView> out;
  for (const RankState& rank : ranks_) {
    out.push_back({rank.member, rank.progress, rank.member ? now - rank.heard : Time::zero(),
                   rank.final_report.has_value(), rank.gone});
  }
  return out;
}

std::string Membership::explain() const {
  constexpr std::array kNames{"gathering", "running", "settling", "stopping", "over"};
  std::string out = fmt::format("generation {} {}:", options_.epoch, nth(kNames, phase_));
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const RankState& rank = ranks_[r];
    out += fmt::format("{} rank {} ", r == 0 ? "" : ",", r);
    if (rank.gone) {
      out += "gone";
    } else if (rank.final_report) {
      out += fmt::format("ending with {}", rank.final_report->value);
    } else if (!rank.member) {
      out += "absent";
    } else {
      out += describe(rank.progress);
    }
  }
  return out;
}

}  // namespace ds
