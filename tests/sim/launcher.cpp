// The launcher of the simulated cluster: does what launcher/supervisor does around the same Membership,
// Recovery and NodePool.
#include <csignal>

#include <algorithm>

#include "core/error.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

int host_number(const std::string& name) { return std::stoi(name.substr(4)); }

int64_t recorded_epoch(FileSystem& files) {
  const std::string path = std::string(kRoot) + "/epoch";
  return files.exists(path) ? std::stoll("0" + files.read_text(path, 64)) : 0;
}

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

// A launch: the first, or the user's next one after the launcher was lost.
void Cluster::launch() {
  Launcher fresh;
  fresh.number = launcher_.number + 1;
  if (std::ranges::none_of(hosts_, [](const Host& host) { return host.reachable(); })) {
    finish(69, "no host is left");
    return;
  }
  fresh.recovery = std::make_unique<Recovery>(
      Recovery::Options{.max_restarts = 2 * result_.faults + 2,
                        .same_failure_limit = 4,
                        .wait_for_hosts = waits_for_hosts_ ? Time(kHostsMayReturn) : Time::zero()},
      make_pool());
  // As launcher/epoch_plan.h does it.
  fresh.epoch = mutant(Mutant::kSameEpoch)
                    ? 0
                    : std::max(recorded_epoch(*disk_.files), launched_epoch_);
  launcher_ = std::move(fresh);
  start_epoch(launcher_.recovery->first_world());
  tick_every_second(launcher_.number);
}

void Cluster::start_epoch(const std::vector<RankPlacement>& world) {
  Launcher& l = launcher_;
  if (!mutant(Mutant::kSameEpoch) || l.epoch == 0) ++l.epoch;
  newest_epoch_ = std::max(newest_epoch_, l.epoch);
  launched_epoch_ = l.epoch;
  l.epoch_started = now_;
  l.committed = l.stopping = l.running = l.growing = false;
  l.recourse.reset();
  l.gone.assign(world.size(), false);
  l.hosts_of_ranks.clear();
  Membership::Options options{.world_size = static_cast<int>(world.size()), .epoch = l.epoch};
  options.join_deadline = seconds(10);
  options.exit_grace = seconds(5);
  options.hang.floor = mutant(Mutant::kNoHangWatch) ? Time(hours(99)) : Time(seconds(10));
  options.hang.steps = 1;  // a step that a cut link made long must not stretch the bound
  for (auto& [phase, bound] : options.hang.phases) bound = seconds(12);
  if (mutant(Mutant::kNoLease)) options.lease = hours(99);
  l.membership = std::make_unique<Membership>(options, now_);
  const auto group = std::make_shared<Group>();
  group->size = static_cast<int>(world.size());
  trace(fmt::format("launch {} starts epoch {} with {} ranks", l.number, l.epoch, world.size()));
  for (size_t rank = 0; rank < world.size(); ++rank) {
    const int host = host_number(world[rank].host);
    l.hosts_of_ranks.push_back(host);
    const auto process = std::make_shared<Process>();
    process->host = host;
    process->rank = static_cast<int>(rank);
    process->epoch = l.epoch;
    process->launch = l.number;
    process->size = group->size;
    process->group = group;
    at(now_ + random_time(milliseconds(1), milliseconds(20)), [this, process] {
      if (hosts_[static_cast<size_t>(process->host)].reachable() &&
          process->launch == launcher_.number && process->epoch == launcher_.epoch &&
          !launcher_.stopping) {
        spawn(process);
      }
    });
  }
}

void Cluster::spawn(const std::shared_ptr<Process>& process) {
  Process* const self = process.get();
  process->disk = std::make_unique<ProcessDisk>(
      disk_, [this, self](const std::string& operation) { spend_disk_time(*self, operation); });
  process->fibre = std::make_unique<Fibre>([this, self] { rank_main(*this, *self); });
  processes_.push_back(process);
  beat(process);
  at(now_, [this, process] { wake(process, process->block); });
}

void Cluster::tick_every_second(int number) {
  if (over_ || number != launcher_.number) return;
  launcher_step();
  at(now_ + seconds(1), [this, number] { tick_every_second(number); });
}

void Cluster::launcher_step() {
  Launcher& l = launcher_;
  if (!l.membership || over_) return;
  if (l.stopping) {
    for (const auto& process : processes_) {  // an order to end is repeated until it is followed
      const bool ours = process->alive && process->launch == l.number && process->epoch == l.epoch;
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
        l.membership->ended(now_, static_cast<int>(rank), 0, SIGKILL);
      }
    }
  }
  while (const std::optional<Decision> decision = l.membership->tick(now_)) {
    if (decision->kind == Decision::Kind::kStart) {
      l.running = true;
      for (const auto& process : processes_) {
        if (process->launch != l.number || process->epoch != l.epoch) continue;
        at(now_ + random_time(Time(200'000), milliseconds(10)), [this, process] {
          if (!hosts_[static_cast<size_t>(process->host)].hears) return;
          process->admitted = true;
          wake(process, process->block);
        });
      }
    } else if (decision->kind == Decision::Kind::kStopAll) {
      stop_all(*decision);
    } else {
      epoch_over(*decision);
      return;
    }
  }
  look_for_hosts();
  Time next = l.membership->next_deadline();
  if (const Time growth = l.growth->next_deadline(); growth > now_) next = std::min(next, growth);
  if (next > now_ && next < now_ + seconds(1)) {
    at(next + Time(1), [this, number = l.number] {
      if (number == launcher_.number) launcher_step();
    });
  }
}

// What launcher/supervisor_growth.cpp does.
void Cluster::look_for_hosts() {
  Launcher& l = launcher_;
  if (!l.running || l.stopping) return;
  try_hosts();
  if (!l.growing && l.growth->due(now_)) begin_growth();
}

void Cluster::try_hosts() {
  Launcher& l = launcher_;
  for (const std::string& host : l.growth->to_try(now_)) {
    if (hosts_[static_cast<size_t>(host_number(host))].reachable()) {
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
void Cluster::await_hosts(int number, Time give_up) {
  Launcher& l = launcher_;
  if (number != l.number || over_) return;
  l.growth->look_now(now_);
  try_hosts();
  if (const auto world = l.recovery->pool().next_world()) {
    start_epoch(*world);
  } else if (now_ >= give_up) {
    const Recourse end = l.recovery->nobody_came(*l.recourse);
    finish(end.exit_code, end.reason);
  } else {
    at(now_ + seconds(2), [this, number, give_up] { await_hosts(number, give_up); });
  }
}

void Cluster::begin_growth() {
  Launcher& l = launcher_;
  const auto larger = l.recovery->growth(static_cast<int>(l.gone.size()));
  if (!larger) return;
  if (l.grew_at && now_ - *l.grew_at < kGrowthsApart) breach("two growths came too soon after each other");
  if (larger->world.size() <= l.gone.size()) breach("a growth makes the world no larger");
  trace(fmt::format("epoch {} is to end for a world of {} ranks", l.epoch, larger->world.size()));
  l.growing = true;
  l.grew_at = now_;
  l.growth->grown(now_);
  for (const auto& process : processes_) {
    if (!process->alive || process->launch != l.number || process->epoch != l.epoch) continue;
    at(now_ + random_time(Time(200'000), milliseconds(20)), [this, process] {
      if (hosts_[static_cast<size_t>(process->host)].hears) process->asked_to_stop = true;
    });
  }
}

void Cluster::stop_all(const Decision& decision) {
  Launcher& l = launcher_;
  l.stopping = true;
  trace(fmt::format("epoch {} is stopped: {}", l.epoch, decision.reason));
  if (decision.root_cause) {
    const auto rank = static_cast<size_t>(decision.root_cause->rank);
    EpochOutcome outcome{.cause = *decision.root_cause,
                         .host = fmt::format("host{}", l.hosts_of_ranks[rank]),
                         .exit_code = decision.exit_code,
                         .committed = l.committed,
                         .ran = now_ - l.epoch_started,
                         .lost_hosts = {},
                         .hosts_may_return = false};
    for (size_t host = 0; host < hosts_.size() && !mutant(Mutant::kForgetLosses); ++host) {
      if (!hosts_[host].reachable()) outcome.lost_hosts.push_back(fmt::format("host{}", host));
    }
    for (const std::string& host : outcome.lost_hosts) l.growth->lost(now_, host);
    outcome.hosts_may_return = l.growth->misses_any();
    l.recourse = l.recovery->after(outcome);
    l.back.clear();
  }
  for (const auto& process : processes_) {
    if (!process->alive || process->launch != l.number || process->epoch != l.epoch) continue;
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
      return process->alive && process->launch == l.number && process->epoch == l.epoch &&
             process->rank == static_cast<int>(rank);
    });
    if (!there) {
      l.gone[rank] = true;
      l.membership->ended(now_, static_cast<int>(rank), 0, SIGKILL);
    }
  }
}

void Cluster::epoch_over(const Decision& decision) {
  Launcher& l = launcher_;
  for (const auto& process : processes_) {
    const bool ours = process->launch == l.number && process->epoch == l.epoch;
    const Host& host = hosts_[static_cast<size_t>(process->host)];
    if (process->alive && ours && host.reachable() && host.cuts == 0) {
      breach(fmt::format("epoch {} is over, but its rank {} still runs", l.epoch, process->rank));
    }
  }
  l.membership.reset();
  if (!l.recourse && l.growing && decision.exit_code == static_cast<int>(ExitCode::kRequeue)) {
    ++result_.growths;
    l.recourse = l.recovery->growth(0);
    l.back.clear();
    start_epoch(std::vector<RankPlacement>(l.recourse->world));
    return;
  }
  if (!l.recourse) {
    finish(decision.exit_code, decision.reason);
    return;
  }
  if (!l.recourse->restart) {
    finish(l.recourse->exit_code, l.recourse->reason);
    return;
  }
  ++result_.restarts;
  if (l.recourse->waits_for_hosts) {
    await_hosts(l.number, now_ + kHostsMayReturn);
    return;
  }
  at(now_ + l.recourse->wait, [this, number = l.number, world = l.recourse->world] {
    if (number == launcher_.number && !over_) start_epoch(world);
  });
}

// The exit code must say what happened.
void Cluster::finish(int code, const std::string& reason) {
  result_.exit_code = code;
  trace(fmt::format("the run ends with {}: {}", code, reason));
  const int64_t newest = newest_readable_step(*disk_.files);
  if (newest < committed_step_) {
    breach(fmt::format("at the end step {} was committed, but only {} can be read", committed_step_,
                       newest));
  } else if (code == 0 && newest != kSteps) {
    breach(fmt::format("exit code 0, but the newest tag is of step {}", newest));
  }
  const bool hosts_lost = std::ranges::any_of(hosts_, [](const Host& host) { return !host.reachable(); }) ||
                          reason.find("nodes are left") != std::string::npos;
  const bool explained = code == 0 || (code == 76 && reason.find("nodes are left") != std::string::npos) ||
                         (code == 69 && (hosts_lost || result_.faults > 0)) ||
                         reason.find("times in a row") != std::string::npos;
  if (!explained) breach(fmt::format("exit code {}: {}", code, reason));
  over_ = true;
}

}  // namespace ds::sim
