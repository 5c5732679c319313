// What goes wrong in a schedule: one to four faults at drawn times, a third of them while another recovers.
#include <csignal>

#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum ProcessFault { kCrash, kPause, kStuck, kDiskError, kProcessFaults };
enum HostFault { kHostLoss, kCutBoth, kCutUp, kCutDown, kHostFaults };
enum WholeFault { kLauncherLoss, kPowerLoss, kWholeFaults };

}  // namespace

void Cluster::plan_faults() {
  result_.faults = 1 + pick(4);
  faults_left_ = result_.faults;
  Time when{};
  for (int i = 0; i < result_.faults; ++i) {
    when += chance(0.4) ? random_time(milliseconds(1), milliseconds(400))
                        : random_time(milliseconds(20), milliseconds(1200));
    at(when, [this] { strike(); });
  }
}

void Cluster::strike() {
  std::vector<std::shared_ptr<Process>> alive;
  std::ranges::copy_if(processes_, std::back_inserter(alive),
                       [](const auto& process) { return process->alive; });
  const int kind = pick(20);
  if (kind < 12 && !alive.empty()) {
    const bool first = chance(0.5);  // rank 0 commits: most can go wrong there
    const auto& process = first ? alive.front() : alive[static_cast<size_t>(pick(static_cast<int>(alive.size())))];
    strike_process(process, kind < 5 ? kCrash : kind < 8 ? kPause : kind < 9 ? kStuck : kDiskError);
  } else if (kind == 12 && hosts_.size() > 1) {
    ambush_ = true;
  } else if (kind < 16 && hosts_.size() > 1) {
    strike_host(pick(static_cast<int>(hosts_.size())), pick(kHostFaults));
  } else if (kind >= 16) {
    strike_all(kind < 18 ? kLauncherLoss : kPowerLoss);
  }
}

// The launcher must have stopped the epoch of this process within the bound.
void Cluster::expect_notice(const Process& process, Time bound, const std::string& what) {
  const Host& host = hosts_[static_cast<size_t>(process.host)];
  if (!host.reachable()) return;
  at(now_ + bound, [this, what, bound, &host, cuts = host.cuts, launch = process.launch,
                    epoch = process.epoch] {
    if (host.cuts == cuts && launcher_.number == launch && launcher_.epoch == epoch && launcher_.membership &&
        !launcher_.stopping) {
      breach(fmt::format("{} was not noticed within {} ms: {}", what,
                         std::chrono::duration_cast<milliseconds>(bound).count(),
                         launcher_.membership->explain()));
    }
  });
}

void Cluster::strike_process(const std::shared_ptr<Process>& process, int kind) {
  const Time joining = launcher_.running ? Time::zero() : Time(seconds(11));
  const auto say = [&](const char* what) {
    trace(fmt::format("FAULT: {} of rank {} of epoch {}", what, process->rank, process->epoch));
  };
  if (kind == kCrash) {
    say("crash");
    expect_notice(*process, milliseconds(300), "a crash");
    die(process, 0, SIGKILL);
  } else if (kind == kPause) {
    say("pause");
    process->paused = true;
    const Time length = random_time(milliseconds(500), seconds(20));
    const Time bound = seconds(7) + joining;
    if (length > bound + seconds(1)) expect_notice(*process, bound, "a stopped rank");
    process->paused_until = std::max(process->paused_until, now_ + length);
    at(now_ + length, [this, process] {
      if (now_ < process->paused_until) return;  // stopped once more meanwhile, and for longer
      process->paused = false;
      if (std::exchange(process->owes_wake, false)) wake(process, process->block);
    });
  } else if (kind == kStuck) {
    say("standstill");
    process->stuck = true;
    expect_notice(*process, seconds(22) + joining, "a rank that stands still");
  } else {
    say("disk error");
    process->fail_call = pick(30);
    process->disk_full = chance(0.3);
  }
}

void Cluster::strike_host(int number, int kind) {
  Host& host = hosts_[static_cast<size_t>(number)];
  if (!host.reachable()) return;
  trace(fmt::format("FAULT: {} host{}", kind == kHostLoss ? "loss of" : "cut off", number));
  if (kind == kHostLoss) {
    ++host.cuts;
    host.alive = false;
    for (const auto& process : processes_) {
      if (process->host == number) die(process, 0, SIGKILL);
    }
    return;
  }
  ++host.cuts;
  host.hears = kind == kCutUp;
  host.speaks = kind == kCutDown;
  const Time length = random_time(milliseconds(200), seconds(20));
  // Late writers: a disk call of theirs hangs until a new epoch has begun.
  for (const auto& process : processes_) {
    if (process->host == number && process->alive && chance(0.5)) {
      process->stall = random_time(seconds(4), seconds(9));
    }
  }
  // Its agent gives up on the launcher after a while; when the link is back, what is of an old epoch goes.
  const auto end_old = [this, number](bool all) {
    for (const auto& process : processes_) {
      const bool old = process->epoch < launcher_.epoch || process->launch < launcher_.number;
      if (process->host == number && (all || old)) die(process, 0, SIGKILL);
    }
  };
  if (length > seconds(10)) at(now_ + seconds(10), [end_old] { end_old(true); });
  at(now_ + length, [this, number, end_old] {
    Host& healed = hosts_[static_cast<size_t>(number)];
    healed.hears = healed.speaks = true;
    trace(fmt::format("host{} is back", number));
    at(now_ + milliseconds(50), [end_old] { end_old(false); });
  });
}

void Cluster::strike_all(int kind) {
  trace(fmt::format("FAULT: {}", kind == kPowerLoss ? "power loss" : "loss of the launcher"));
  for (const auto& process : processes_) {
    if (kind == kPowerLoss || hosts_[static_cast<size_t>(process->host)].reachable()) {
      die(process, 0, SIGKILL);
    }
  }
  if (kind == kPowerLoss) {
    const auto model = chance(0.3) ? CrashModel::kKeepNone : CrashModel::kTorn;
    disk_.files = disk_.files->after_crash(model, draws_());
  }
  launcher_.membership.reset();
  ++launcher_.number;
  at(now_ + random_time(milliseconds(100), seconds(3)), [this, number = launcher_.number] {
    if (number == launcher_.number && !over_) launch();
  });
}

}  // namespace ds::sim
