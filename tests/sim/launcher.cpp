// The launchers of the simulated cluster: each does what launcher/run/supervisor does around the
// same Membership, Recovery and NodePool. What one writes is launcher_files.cpp, how it ends is
// ends.cpp.
#include <algorithm>
#include <csignal>
#include <utility>

#include "core/error.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

int host_number(const std::string& name) { return std::stoi(name.substr(4)); }

}  // namespace

NodePool Cluster::make_pool() const {
  NodePool::Options options;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (!hosts_[host].reachable()) continue;
    PoolNode node{fmt::format("host{}", host), {}};
    for (int slot = 0; slot < slots_; ++slot) node.slots.push_back(slot);
    options.nodes.push_back(node);
  }
  options.spares = options.nodes.size() == hosts_.size() ? spares_ : 0;
  if (elastic_ || options.nodes.size() < hosts_.size()) {
    options.min_nodes = 1;
    options.fits = [](int ranks) { return kElements % ranks == 0; };
  }
  return NodePool(options);
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
  l.recovery = std::make_unique<Recovery>(
      Recovery::Options{.max_restarts = 2 * result_.faults + 2,
                        .same_failure_limit = 4,
                        .wait_for_hosts = waits_for_hosts_ ? Time(kHostsMayReturn) : Time::zero()},
      make_pool());
  prepare_epoch(l, l.recovery->first_world());
  tick_every_second(handle(l));
}

void Cluster::prepare_epoch(Launcher& l, const std::vector<RankPlacement>& world) {
  l.prepared = world;
  claim_epoch_for(l);
}

// Once its number is claimed. False if the run is over.
bool Cluster::start_prepared(Launcher& l) {
  if (!l.claimed) return true;
  const Claimed claim = *std::exchange(l.claimed, std::nullopt);
  if (!claim.error.empty()) {
    finish(l, static_cast<int>(ExitCode::kStorage), claim.error);
    return false;
  }
  l.epoch = claim.epoch;
  start_epoch(l, *std::exchange(l.prepared, std::nullopt));
  return true;
}

void Cluster::start_epoch(Launcher& l, const std::vector<RankPlacement>& world) {
  const auto claim = claims_.find(l.epoch);
  if (claim == claims_.end() || claim->second != l.number) {
    breach(fmt::format("launch {} starts epoch {}, which it has not claimed", l.number, l.epoch));
  }
  l.first = false;
  newest_epoch_ = std::max(newest_epoch_, l.epoch);
  l.epoch_started = now_;
  l.innocent = disturbed_until_ <= now_;
  l.committed = l.stopping = l.running = l.growing = false;
  l.recourse.reset();
  l.heard.clear();
  l.steps_taken.clear();
  l.gone.assign(world.size(), false);
  l.hosts_of_ranks.clear();
  Membership::Options options{.world_size = static_cast<int>(world.size()), .epoch = l.epoch};
  options.join_deadline = seconds(10);
  options.exit_grace = seconds(5);
  options.hang.floor = mutant(Mutant::kNoHangWatch) ? Time(hours(99)) : Time(seconds(10));
  options.hang.steps = 1;  // a step that a cut link made long must not stretch the bound
  for (auto& [phase, bound] : options.hang.phases) bound = seconds(12);
  if (mutant(Mutant::kNoLease)) options.lease = hours(99);
  for (const RankPlacement& place : world) options.hosts.push_back(place.host);
  l.membership = std::make_unique<Membership>(options, now_);
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
            its.membership && !its.stopping) {
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
  if (!l.alive || l.paused || l.ending || over_ || !l.holds) return;
  keep_lease(l);
  if (l.taken_over && !l.lost) {
    l.lost = true;
    if (l.membership)
      l.membership->kill_requested(now_, static_cast<int>(ExitCode::kRequeue), *l.taken_over);
  }
  if (l.taken_over && !l.membership) {
    finish(l, static_cast<int>(ExitCode::kRequeue), *l.taken_over);
    return;
  }
  if (!l.membership && l.prepared && !start_prepared(l)) return;
  if (!l.membership) return;
  if (l.stopping) kill_rest(l);
  while (l.membership) {
    const std::optional<Decision> decision = l.membership->tick(now_);
    if (!decision) break;
    carry_out(l, *decision);
  }
  if (!l.membership) return;
  look_for_hosts(l);
  Time next = l.membership->next_deadline();
  if (const Time growth = l.growth->next_deadline(); growth > now_) next = std::min(next, growth);
  if (next > now_ && next < now_ + seconds(1)) {
    at(next + Time(1), [this, me = handle(l)] { launcher_step(*me); });
  }
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
  // Of hosts that cannot be reached nobody will ever hear the end.
  for (size_t rank = 0; rank < l.gone.size(); ++rank) {
    if (!l.gone[rank] && !hosts_[static_cast<size_t>(l.hosts_of_ranks[rank])].reachable()) {
      l.gone[rank] = true;
      l.reports_lost = true;
      l.membership->ended(now_, static_cast<int>(rank), 0, SIGKILL);
    }
  }
}

void Cluster::carry_out(Launcher& l, const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::kStart:
      l.running = true;
      for (const auto& process : processes_) {
        if (process->launcher.get() != &l || process->epoch != l.epoch) continue;
        at(now_ + random_time(Time(200'000), milliseconds(10)), [this, process] {
          if (!hosts_[static_cast<size_t>(process->host)].hears) return;
          process->admitted = true;
          wake(process, process->block);
        });
      }
      break;
    case Decision::Kind::kStopAll:
      stop_all(l, decision);
      break;
    case Decision::Kind::kFinish:
      epoch_over(l, decision);
      break;
  }
}

// What launcher/run/supervisor_growth.cpp does.
void Cluster::look_for_hosts(Launcher& l) {
  if (!l.running || l.stopping) return;
  try_hosts(l);
  if (!l.growing && l.growth->due(now_)) begin_growth(l);
}

void Cluster::try_hosts(Launcher& l) {
  const auto reaches_the_others = [&](const std::string& host) {
    if (l.running) return false;  // nobody looks while others train
    const int number = host_number(host);
    return std::ranges::all_of(l.hosts_of_ranks, [&](int other) {
      return other == number || (link_up(number, other) && link_up(other, number));
    });
  };
  for (const std::string& host : l.growth->to_try(now_)) {
    if (l.cut_off.contains(host) && !reaches_the_others(host)) {
      l.growth->missed(now_, host);
    } else if (hosts_[static_cast<size_t>(host_number(host))].reachable()) {
      l.cut_off.erase(host);
      trace(fmt::format("{} is found", host));
      l.growth->found(now_, host);
      l.recovery->pool().bring_back(host);
      l.back.insert(host);
    } else {
      l.growth->missed(now_, host);
    }
  }
  for (auto at = l.back.begin(); at != l.back.end();) {
    const bool there = hosts_[static_cast<size_t>(host_number(*at))].reachable();
    if (!there) {
      l.growth->missed(now_, *at);
      l.recovery->pool().lose(*at);
    }
    at = there ? std::next(at) : l.back.erase(at);
  }
}

// Between epochs, with too few hosts for any world.
void Cluster::await_hosts(Launcher& l, Time give_up) {
  if (l.ending || l.lost) return;
  if (l.taken_over) {
    finish(l, static_cast<int>(ExitCode::kRequeue), *l.taken_over);
    return;
  }
  l.running = false;
  l.growth->look_now(now_);
  try_hosts(l);
  if (const auto world = l.recovery->pool().next_world()) {
    prepare_epoch(l, *world);
  } else if (now_ >= give_up) {
    const Recourse end = l.recovery->nobody_came(*l.recourse);
    finish(l, end.exit_code, end.reason);
  } else {
    at(now_ + seconds(2), [this, me = handle(l), give_up] {
      when_awake(me, [this, me, give_up] { await_hosts(*me, give_up); });
    });
  }
}

void Cluster::begin_growth(Launcher& l) {
  const auto larger = l.recovery->growth(static_cast<int>(l.gone.size()));
  if (!larger) return;
  if (l.grew_at && now_ - *l.grew_at < kGrowthsApart)
    breach("two growths came too soon after each other");
  if (larger->world.size() <= l.gone.size()) breach("a growth makes the world no larger");
  trace(fmt::format("epoch {} is to end for a world of {} ranks", l.epoch, larger->world.size()));
  l.growing = true;
  l.grew_at = now_;
  l.growth->grown(now_);
  for (const auto& process : processes_) {
    if (!process->alive || process->launcher.get() != &l || process->epoch != l.epoch) continue;
    at(now_ + random_time(Time(200'000), milliseconds(20)), [this, process] {
      if (hosts_[static_cast<size_t>(process->host)].hears) process->asked_to_stop = true;
    });
  }
}

void Cluster::stop_all(Launcher& l, const Decision& decision) {
  l.stopping = true;
  trace(fmt::format("epoch {} is stopped: {}", l.epoch, decision.reason));
  if (decision.root_cause) judge(l, decision);
  for (const auto& process : processes_) {
    if (!process->alive || process->launcher.get() != &l || process->epoch != l.epoch) continue;
    if (mutant(Mutant::kLeaveOld)) {
      l.gone[static_cast<size_t>(process->rank)] = true;
      l.membership->ended(now_, process->rank, 0, SIGKILL);
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
      l.membership->ended(now_, static_cast<int>(rank), 0, SIGKILL);
    }
  }
}

// As Supervisor::judge().
void Cluster::judge(Launcher& l, const Decision& decision) {
  const bool given_up = has_hosts() && l.stall >= seconds(11) && now_ - l.stalled_at < seconds(10);
  const auto rank = static_cast<size_t>(decision.root_cause->rank);
  EpochOutcome outcome{.cause = *decision.root_cause,
                       .host = fmt::format("host{}", l.hosts_of_ranks[rank]),
                       .exit_code = decision.exit_code,
                       .committed = l.committed,
                       .ran = now_ - l.epoch_started,
                       .lost_hosts = {},
                       .hosts_may_return = false,
                       .own_stall = given_up};
  for (size_t host = 0; host < hosts_.size() && !given_up && !mutant(Mutant::kForgetLosses);
       ++host) {
    if (!hosts_[host].reachable()) outcome.lost_hosts.push_back(fmt::format("host{}", host));
  }
  const std::vector<std::string> without =
      given_up ? std::vector<std::string>{} : decision.root_cause->without;
  outcome.lost_hosts.insert(outcome.lost_hosts.end(), without.begin(), without.end());
  l.cut_off.insert(without.begin(), without.end());
  check_link_verdict(without);
  for (const std::string& host : outcome.lost_hosts) l.growth->lost(now_, host);
  outcome.hosts_may_return = l.growth->misses_any();
  l.recourse = l.recovery->after(outcome);
  l.back.clear();
  check_blame(l, decision, given_up);
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

// Where only launchers had trouble, no rank is blamed.
void Cluster::check_blame(const Launcher& l, const Decision& decision, bool given_up) {
  if (!l.innocent) return;
  const bool excused = given_up && l.recourse->blames_nobody;
  const bool fenced = opened_epoch_ > l.epoch;  // by another launcher
  if (fenced && holder_ == l.number && !l.followed) {
    breach(fmt::format("launch {} has the lease, but epoch {} was shut out: {}", l.number, l.epoch,
                       decision.reason));
  }
  if (!excused && !fenced) {
    breach(fmt::format("nothing was wrong with the ranks of epoch {}, and yet: {}", l.epoch,
                       decision.reason));
  }
}

void Cluster::epoch_over(Launcher& l, const Decision& decision) {
  for (const auto& process : processes_) {
    const bool ours = process->launcher.get() == &l && process->epoch == l.epoch;
    const Host& host = hosts_[static_cast<size_t>(process->host)];
    if (process->alive && ours && host.reachable() && host.cuts == 0) {
      breach(fmt::format("epoch {} is over, but its rank {} still runs", l.epoch, process->rank));
    }
  }
  l.membership.reset();
  if (l.taken_over) {
    finish(l, decision.exit_code, decision.reason);
    return;
  }
  if (!l.recourse && l.growing && decision.exit_code == static_cast<int>(ExitCode::kRequeue)) {
    ++result_.growths;
    l.recourse = l.recovery->growth(0);
    l.back.clear();
    prepare_epoch(l, std::vector<RankPlacement>(l.recourse->world));
    return;
  }
  if (!l.recourse) {
    finish(l, decision.exit_code, decision.reason);
    return;
  }
  if (!l.recourse->restart) {
    finish(l, l.recourse->exit_code, l.recourse->reason);
    return;
  }
  ++result_.restarts;
  if (l.recourse->waits_for_hosts) {
    await_hosts(l, now_ + kHostsMayReturn);
    return;
  }
  at(now_ + l.recourse->wait, [this, me = handle(l), world = l.recourse->world] {
    when_awake(me, [this, me, world] {
      if (!me->ending && !me->lost) prepare_epoch(*me, world);
    });
  });
}

}  // namespace ds::sim
