// The launchers of the simulated cluster: each carries out what the product's RunCore wants, as
// launcher/run/supervisor does. What one writes is launcher_files.cpp, how it ends is ends.cpp.
#include <algorithm>
#include <csignal>
#include <utility>

#include "core/status/error.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

int host_number(const std::string& name) { return name.empty() ? 0 : std::stoi(name.substr(4)); }

}  // namespace

// If there is only one host, it is the launcher's own machine, on which there is no agent.
std::string Cluster::host_name(int host) const {
  return has_hosts() ? fmt::format("host{}", host) : "";
}

NodePool::Options Cluster::nodes() const {
  NodePool::Options options;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (!hosts_[host].reachable()) continue;
    PoolNode node{host_name(static_cast<int>(host)), {}};
    for (int slot = 0; slot < slots_; ++slot) node.slots.push_back(slot);
    options.nodes.push_back(node);
  }
  options.spares = options.nodes.size() == hosts_.size() ? spares_ : 0;
  if (elastic_ || options.nodes.size() < hosts_.size()) {
    options.min_nodes = 1;
    options.fits = [](int ranks) { return kElements % ranks == 0; };
  }
  return options;
}

std::shared_ptr<Launcher> Cluster::handle(Launcher& l) {
  return launchers_.at(static_cast<size_t>(l.number) - 1);
}

void Cluster::when_awake(const std::shared_ptr<Launcher>& l, std::function<void()> act) {
  if (!l->alive || over_) return;
  if (l->paused) {
    l->owed.push_back(std::move(act));
  } else {
    act();
  }
}

void Cluster::launch_later(Time wait, int machine, int settings) {
  ++launches_to_come_;
  at(now_ + wait, [this, machine, settings] {
    --launches_to_come_;
    if (!done_) {
      launch(machine, settings);
    } else if (std::ranges::none_of(launchers_, [](const auto& l) { return l->alive; })) {
      over_ = true;
    }
  });
}

// A user types `dslaunch`: for the first time, after a launcher was lost, or by mistake beside
// another one.
void Cluster::launch(int machine, int settings) {
  const auto l = std::make_shared<Launcher>();
  launchers_.push_back(l);
  l->number = static_cast<int>(launchers_.size());
  l->machine = machine;
  l->settings = settings;
  l->lease = {.token = fmt::format("token-{}", l->number),
              .host = fmt::format("machine{}", machine),
              .pid = l->number,
              .process_start = 1,
              .kernel = fmt::format("kernel{}-{}", machine, boots_),
              .pid_namespace = "pid:[1]",
              .since = "",
              .renewals = 0,
              .over = false,
              .exit_code = std::nullopt};
  trace(fmt::format("launch {} on machine {}, settings {}", l->number, machine, settings));
  Launcher* const self = l.get();
  l->disk = std::make_unique<ProcessDisk>(
      disk_, l->number,
      [this, self](const std::string& operation) { spend_writer_time(*self, operation); });
  l->writer = std::make_unique<Fibre>([this, self] { writer_main(*self); });
  at(now_, [this, l] { wake_writer(l, l->block); });
}

// Once it has the lease.
void Cluster::begin(Launcher& l) {
  if (std::ranges::none_of(hosts_, [](const Host& host) { return host.reachable(); })) {
    finish(l, 69, "no host is left");
    return;
  }
  RunCore::Options options;
  options.recovery = {.max_restarts = 2 * result_.faults + 2,
                      .same_failure_limit = 4,
                      .wait_for_hosts = waits_for_hosts_ ? Time(kHostsMayReturn) : Time::zero()};
  options.nodes = nodes();
  options.growth = {.first_retry = milliseconds(500),
                    .longest_retry = seconds(4),
                    .settle = milliseconds(200),
                    .apart = kGrowthsApart,
                    .longest_apart = seconds(20)};
  options.epoch.join_timeout = mutant(Mutant::kNoJoinTimeout) ? Time(hours(99)) : Time(seconds(10));
  options.epoch.exit_grace = seconds(5);
  options.epoch.hang.floor = mutant(Mutant::kNoHangWatch) ? Time(hours(99)) : Time(seconds(10));
  options.epoch.hang.steps = 1;  // a step that a cut link made long must not stretch the bound
  for (auto& [phase, bound] : options.epoch.hang.phases) bound = seconds(12);
  if (mutant(Mutant::kNoLease)) options.epoch.lease = hours(99);
  l.core = std::make_unique<RunCore>(options, now_);
  tick_every_second(handle(l));
}

void Cluster::execute(Launcher& l, const run_action::ClaimEpoch& action) {
  l.prepared = action.ranks;
  claim_epoch_for(l, action);
}

void Cluster::take_claim(Launcher& l) {
  if (!l.claimed || !l.core->claims()) return;
  const Claimed claim = *std::exchange(l.claimed, std::nullopt);
  if (claim.error.empty()) {
    l.core->event(now_, run_event::EpochClaimed{claim.epoch});
  } else {
    finish(l, static_cast<int>(ExitCode::kStorage), claim.error);
  }
}

void Cluster::execute(Launcher& l, const run_action::StartEpoch& action) {
  const std::vector<RankPlacement> world = std::exchange(l.prepared, {});
  l.epoch = action.epoch;
  const auto claim = claims_.find(l.epoch);
  if (claim == claims_.end() || claim->second != l.number) {
    breach(fmt::format("launch {} starts epoch {}, which it has not claimed", l.number, l.epoch));
  }
  l.first = false;
  newest_epoch_ = std::max(newest_epoch_, l.epoch);
  l.innocent = disturbed_until_ <= now_;
  l.stopping = false;
  l.back.clear();
  l.heard.clear();
  l.steps_taken.clear();
  l.gone.assign(world.size(), false);
  l.hosts_of_ranks.clear();
  const auto group = std::make_shared<Group>();
  group->size = static_cast<int>(world.size());
  trace(fmt::format("launch {} starts epoch {} with {} ranks", l.number, l.epoch, world.size()));
  for (size_t rank = 0; rank < world.size(); ++rank) {
    const int host = host_number(world[rank].host);
    l.hosts_of_ranks.push_back(host);
    const auto process = std::make_shared<Process>();
    process->launcher = handle(l);
    process->host = host;
    process->rank = static_cast<int>(rank);
    process->epoch = l.epoch;
    process->claim = l.claim;
    process->size = group->size;
    process->group = group;
    at(now_ + random_time(milliseconds(1), milliseconds(20)), [this, process] {
      when_awake(process->launcher, [this, process] {
        const Launcher& its = *process->launcher;
        if (hosts_[static_cast<size_t>(process->host)].reachable() && process->epoch == its.epoch &&
            its.membership() != nullptr && !its.stopping) {
          spawn(process);
        }
      });
    });
  }
}

void Cluster::spawn(const std::shared_ptr<Process>& process) {
  Process* const self = process.get();
  process->contact = now_;
  process->disk = std::make_unique<ProcessDisk>(
      disk_, process->launcher->number,
      [this, self](const std::string& operation) { spend_disk_time(*self, operation); });
  process->fibre = std::make_unique<Fibre>([this, self] { rank_main(*this, *self); });
  processes_.push_back(process);
  if (stillborn_.contains(spawned_++)) {
    trace(fmt::format("FAULT: rank {} of epoch {} hangs before it joins", process->rank,
                      process->epoch));
    disturb(seconds(30));
    process->stuck = true;
    expect_notice(*process, seconds(12), "a rank that hangs before it joins");
  }
  beat(process);
  at(now_, [this, process] { wake(process, process->block); });
}

void Cluster::tick_every_second(const std::shared_ptr<Launcher>& l) {
  if (over_ || !l->alive || l->ending) return;
  if (!l->paused) launcher_step(*l);
  at(now_ + seconds(1), [this, l] { tick_every_second(l); });
}

// A turn of the loop in launcher/run/supervisor.cpp.
void Cluster::launcher_step(Launcher& l) {
  if (!l.alive || l.paused || l.ending || over_ || !l.core) return;
  keep_lease(l);
  if (l.taken_over && !std::exchange(l.lost, true))
    l.core->event(now_, run_event::TakenOver{*l.taken_over});
  take_claim(l);
  if (l.stopping && l.membership() != nullptr) kill_rest(l);
  miss_hosts(l);
  while (l.alive && !l.ending) {
    const std::vector<RunAction> actions = l.core->ready(now_);
    if (actions.empty()) break;
    for (const RunAction& action : actions)
      std::visit([&](const auto& body) { execute(l, body); }, action);
  }
  if (!l.alive || l.ending) return;
  const Time next = l.core->next_deadline(now_);
  if (next > now_ && next < now_ + seconds(1)) {
    at(next + Time(1), [this, me = handle(l)] { launcher_step(*me); });
  }
}

// Drops hosts that were found and are gone again before they were in a world.
void Cluster::miss_hosts(Launcher& l) {
  if (!l.core->looks_for_hosts()) return;
  std::erase_if(l.back, [&](const std::string& host) {
    if (hosts_[static_cast<size_t>(host_number(host))].reachable()) return false;
    l.core->event(now_, run_event::CandidateAnswered{host, "it is gone again"});
    return true;
  });
}

void Cluster::kill_rest(Launcher& l) {
  for (const auto& process : processes_) {  // an order to end is repeated until it is followed
    const bool ours = process->alive && process->launcher.get() == &l && process->epoch == l.epoch;
    if (ours && hosts_[static_cast<size_t>(process->host)].reachable()) {
      at(now_ + milliseconds(10), [this, process] {
        if (hosts_[static_cast<size_t>(process->host)].reachable()) die(process, 0, SIGKILL);
      });
    }
  }
  // The launcher will never hear the end of ranks on hosts that cannot be reached.
  for (size_t rank = 0; rank < l.gone.size(); ++rank) {
    if (!l.gone[rank] && !hosts_[static_cast<size_t>(l.hosts_of_ranks[rank])].reachable()) {
      l.gone[rank] = true;
      l.reports_lost = true;
      l.membership()->ended(now_, static_cast<int>(rank), 0, SIGKILL);
    }
  }
}

std::vector<std::shared_ptr<Process>> Cluster::ranks_of(const Launcher& l) const {
  std::vector<std::shared_ptr<Process>> out;
  for (const auto& process : processes_) {
    const bool ours = process->launcher.get() == &l && process->epoch == l.epoch;
    if (process->alive && ours) out.push_back(process);
  }
  return out;
}

void Cluster::execute(Launcher& l, const run_action::AdmitRanks& /*action*/) {
  for (const auto& process : processes_) {
    if (process->launcher.get() != &l || process->epoch != l.epoch) continue;
    at(now_ + random_time(Time(200'000), milliseconds(10)), [this, process] {
      if (!hosts_[static_cast<size_t>(process->host)].hears) return;
      process->admitted = true;
      wake(process, process->block);
    });
  }
}

void Cluster::execute(Launcher& l, const run_action::SeekHost& action) {
  const bool there = hosts_[static_cast<size_t>(host_number(action.host))].reachable();
  if (there) l.back.insert(action.host);
  l.core->event(now_, run_event::CandidateAnswered{action.host, there ? "" : "it does not answer"});
}

void Cluster::execute(Launcher& l, const run_action::TryLinks& action) {
  const int number = host_number(action.host);
  const bool reached = std::ranges::all_of(action.ranks, [&](const RankPlacement& rank) {
    const int other = host_number(rank.host);
    return other == number || (link_up(number, other) && link_up(other, number));
  });
  if (!reached) l.back.erase(action.host);
  l.core->event(now_, run_event::LinksTried{action.host, reached ? "" : "it is still cut off"});
}

void Cluster::execute(Launcher& l, const run_action::SaveAndEnd& action) {
  if (l.grew_at && now_ - *l.grew_at < kGrowthsApart)
    breach("two growths came too soon after each other");
  if (action.larger <= l.gone.size()) breach("a growth makes the world no larger");
  trace(fmt::format("epoch {} is to end for a world of {} ranks", l.epoch, action.larger));
  l.grew_at = now_;
  for (const auto& process : ranks_of(l)) {
    at(now_ + random_time(Time(200'000), milliseconds(20)), [this, process] {
      if (hosts_[static_cast<size_t>(process->host)].hears) process->asked_to_stop = true;
    });
  }
}

void Cluster::execute(Launcher& l, const run_action::LearnCause& action) {
  run_event::CauseLearned answer{action.cause, {}};
  for (size_t host = 0; host < hosts_.size() && !mutant(Mutant::kForgetLosses); ++host) {
    if (!hosts_[host].reachable()) answer.lost_hosts.push_back(host_name(static_cast<int>(host)));
  }
  l.core->event(now_, answer);
}

void Cluster::execute(Launcher& l, const run_action::ReportFailure& action) {
  trace(fmt::format("epoch {} is stopped: {}", l.epoch, action.decision.reason));
  if (!action.restart_decision) return;
  const bool excused = action.restart_decision->blames_nobody;
  if (!excused) check_link_verdict(action.decision.root_cause->without);
  check_blame(l, action.decision, excused);
}

void Cluster::execute(Launcher& l, const run_action::KillRanks& /*action*/) {
  l.stopping = true;
  for (const auto& process : ranks_of(l)) {
    if (mutant(Mutant::kLeaveOld)) {
      l.gone[static_cast<size_t>(process->rank)] = true;
      l.membership()->ended(now_, process->rank, 0, SIGKILL);
      continue;
    }
    at(now_ + random_time(Time(200'000), milliseconds(20)), [this, process] {
      if (hosts_[static_cast<size_t>(process->host)].reachable()) die(process, 0, SIGKILL);
    });
  }
  // Processes that were told to start and never did.
  for (size_t rank = 0; rank < l.gone.size(); ++rank) {
    const bool there = std::ranges::any_of(processes_, [&](const auto& process) {
      return process->alive && process->launcher.get() == &l && process->epoch == l.epoch &&
             process->rank == static_cast<int>(rank);
    });
    if (!there) {
      l.gone[rank] = true;
      l.membership()->ended(now_, static_cast<int>(rank), 0, SIGKILL);
    }
  }
}

// A host is done without only if one of its links was cut a moment ago, and the program is not
// blamed for that.
void Cluster::check_link_verdict(const std::vector<std::string>& without) {
  for (const std::string& host : without) {
    const int number = host_number(host);
    const bool cut = std::ranges::any_of(cut_links_, [&](const auto& entry) {
      const auto& [ends, when] = entry;
      return (ends.first == number || ends.second == number) && when.until + seconds(10) > now_;
    });
    if (!cut) breach(fmt::format("{} is done without, although none of its links was cut", host));
  }
}

// If only launchers had trouble, no rank is blamed.
void Cluster::check_blame(const Launcher& l, const Decision& decision, bool excused) {
  if (!l.innocent) return;
  const bool fenced = opened_epoch_ > l.epoch;  // by another launcher
  if (fenced && holder_ == l.number && !l.followed) {
    breach(fmt::format("launch {} has the lease, but epoch {} was shut out: {}", l.number, l.epoch,
                       decision.reason));
  }
  const bool lost = bad_from_ > 0;  // training: its ranks find that out themselves
  if (!excused && !fenced && !lost) {
    breach(fmt::format("nothing was wrong with the ranks of epoch {}, and yet: {}", l.epoch,
                       decision.reason));
  }
}

void Cluster::execute(Launcher& l, const run_action::EndEpoch& /*action*/) {
  for (const auto& process : ranks_of(l)) {
    const Host& host = hosts_[static_cast<size_t>(process->host)];
    if (host.reachable() && host.cuts == 0) {
      breach(fmt::format("epoch {} is over, but its rank {} still runs", l.epoch, process->rank));
    }
  }
}

void Cluster::execute(Launcher& /*l*/, const run_action::AnnounceNext& action) {
  trace(action.line);
  ++(action.restart_decision.grows ? result_.growths : result_.restarts);
}

void Cluster::execute(Launcher& l, const run_action::FinishRun& action) {
  finish(l, action.end.exit_code, action.end.reason);
}

void Cluster::execute(Launcher& /*l*/, const run_action::Tell& action) { trace(action.line); }

}  // namespace ds::sim
