// What goes wrong in a schedule: one to four faults at drawn times, a third of them while another
// recovers.
#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum ProcessFault { kCrash, kPause, kStuck, kDiskError, kProcessFaults };
enum HostFault { kHostLoss, kCutBoth, kCutUp, kCutDown, kHostFaults };
enum LauncherFault { kLauncherPause, kLauncherDisk, kLauncherFaults };
enum WholeFault { kLauncherLoss, kPowerLoss, kWholeFaults };

}  // namespace

void Cluster::plan_faults() {
  plan_hang_at_start();
  if (chance(0.1)) {
    plan_duel();
    return;
  }
  const int strikes = 1 + pick(4);
  result_.faults = strikes + static_cast<int>(stillborn_.size());
  Time when{};
  for (int i = 0; i < strikes; ++i) {
    when += chance(0.4) ? random_time(milliseconds(1), milliseconds(400))
                        : random_time(milliseconds(20), milliseconds(1200));
    at(when, [this] { strike(); });
  }
}

// Drawn apart, so that what else goes wrong in a schedule does not depend on it. Mostly processes
// of the first epoch.
void Cluster::plan_hang_at_start() {
  std::mt19937_64 draws(settings_.seed ^ 0x68616e67);
  if (draws() % 8 != 0) return;
  const uint64_t count = 1 + draws() % 2;
  for (uint64_t i = 0; i < count; ++i) stillborn_.insert(static_cast<int>(draws() % 8));
  extra_ += seconds(30);
}

// A launcher stands still, or its disk does, just when it begins another epoch; another machine
// takes the run over meanwhile and begins one or more.
void Cluster::plan_duel() {
  result_.faults = 4 + static_cast<int>(stillborn_.size());
  extra_ += seconds(180);
  locks_ = chance(0.5) ? Locks::kSameMachine : Locks::kNone;
  const Time begin = random_time(milliseconds(600), milliseconds(2500));
  const Time length = random_time(seconds(14), seconds(40));
  at(begin, [this] { crash_a_rank_of_newest(); });
  at(begin + random_time(milliseconds(1), milliseconds(300)), [this, length] {
    const std::shared_ptr<Launcher> l = some_launcher();
    if (l == nullptr) return;
    if (chance(0.4)) {
      trace("FAULT: the launcher is stopped");
      pause(*l, length);
    } else {
      trace("FAULT: the disk of the launcher hangs");
      l->trouble.hangs = now_ + length;
    }
    launch_later(random_time(Time::zero(), seconds(1)), 1 - l->machine, pick(2));
  });
  for (Time when = begin + seconds(16); when < begin + length && chance(0.8); when += seconds(2)) {
    at(when + random_time(milliseconds(1), milliseconds(1500)),
       [this] { crash_a_rank_of_newest(); });
  }
}

void Cluster::crash_a_rank_of_newest() {
  std::vector<std::shared_ptr<Process>> alive;
  std::ranges::copy_if(processes_, std::back_inserter(alive), [&](const auto& process) {
    return process->alive && process->launcher == launchers_.back();
  });
  if (!alive.empty())
    strike_process(alive[static_cast<size_t>(pick(static_cast<int>(alive.size())))], kCrash);
}

void Cluster::strike() {
  std::vector<std::shared_ptr<Process>> alive;
  std::ranges::copy_if(processes_, std::back_inserter(alive),
                       [](const auto& process) { return process->alive; });
  const int kind = pick(32);
  if (kind < 12 && !alive.empty()) {
    const bool first = chance(0.5);  // rank 0 commits: most can go wrong there
    const auto& process =
        first ? alive.front() : alive[static_cast<size_t>(pick(static_cast<int>(alive.size())))];
    strike_process(process, kind < 5 ? kCrash : kind < 8 ? kPause : kind < 9 ? kStuck : kDiskError);
  } else if (kind == 12 && has_hosts()) {
    ambush_ = true;
  } else if (kind < 16 && has_hosts()) {
    strike_host(pick(static_cast<int>(hosts_.size())), pick(kHostFaults));
  } else if (kind < 20) {
    strike_all(kind < 18 ? kLauncherLoss : kPowerLoss);
  } else if (kind < 23 && has_hosts()) {
    strike_link();
  } else if (kind < 26) {
    strike_launcher(kLauncherPause);
  } else if (kind < 28) {
    strike_launcher(kLauncherDisk);
  } else if (kind < 30) {
    launch_beside();
  } else {
    strike_and_launch();
  }
}

// From here on something else than a launcher is in trouble, and for how long.
void Cluster::disturb(Time length) {
  disturbed_until_ = std::max(disturbed_until_, now_ + length + seconds(15));
  for (const auto& l : launchers_) l->innocent = false;
}

// The launcher must have stopped the epoch of this process within the bound, unless it is stopped
// itself.
void Cluster::expect_notice(const Process& process, Time bound, const std::string& what) {
  const Host& host = hosts_[static_cast<size_t>(process.host)];
  const std::shared_ptr<Launcher>& l = process.launcher;
  if (!in_contact(process)) return;
  at(now_ + bound,
     [this, what, bound, &host, cuts = host.cuts, l, pauses = l->pauses, epoch = process.epoch] {
       if (host.cuts == cuts && l->alive && l->pauses == pauses && l->epoch == epoch &&
           l->membership() != nullptr && !l->stopping) {
         breach(fmt::format("{} was not noticed within {} ms: {}", what,
                            std::chrono::duration_cast<milliseconds>(bound).count(),
                            l->membership()->explain()));
       }
     });
}

void Cluster::strike_process(const std::shared_ptr<Process>& process, int kind) {
  const Time joining = process->launcher->running() ? Time::zero() : Time(seconds(11));
  const auto say = [&](const char* what) {
    trace(fmt::format("FAULT: {} of rank {} of epoch {}", what, process->rank, process->epoch));
  };
  if (kind == kCrash) {
    say("crash");
    disturb(Time::zero());
    expect_notice(*process, milliseconds(300), "a crash");
    die(process, 0, SIGKILL);
  } else if (kind == kPause) {
    say("pause");
    process->paused = true;
    const Time length = random_time(milliseconds(500), seconds(20));
    disturb(length);
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
    disturb(seconds(60));
    process->stuck = true;
    expect_notice(*process, seconds(22) + joining, "a rank that stands still");
  } else {
    say("disk error");
    disturb(seconds(60));
    process->fail_call = pick(30);
    process->disk_full = chance(0.3);
  }
}

void Cluster::strike_host(int number, int kind) {
  Host& host = hosts_[static_cast<size_t>(number)];
  if (!host.reachable()) return;
  trace(fmt::format("FAULT: {} host{}", kind == kHostLoss ? "loss of" : "cut off", number));
  if (kind == kHostLoss) {
    disturb(std::chrono::hours(1));
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
  disturb(length);
  // Late writers: a disk call of theirs hangs until a new epoch has begun.
  for (const auto& process : processes_) {
    if (process->host == number && process->alive && chance(0.5)) {
      process->stall = random_time(seconds(4), seconds(9));
    }
  }
  // When the link is back, what is of an old epoch goes, and the others speak over new streams.
  at(now_ + length, [this, number] {
    Host& healed = hosts_[static_cast<size_t>(number)];
    healed.hears = healed.speaks = true;
    trace(fmt::format("host{} is back", number));
    for (const auto& process : processes_) {
      if (process->host == number && process->alive && process->fibre) connect_again(*process);
    }
    at(now_ + milliseconds(50), [this, number] {
      for (const auto& process : processes_) {
        const Launcher& l = *process->launcher;
        const bool old = !l.alive || l.ending || process->epoch < l.epoch;
        if (process->host == number && old) die(process, 0, SIGKILL);
      }
    });
  });
}

// Two hosts do not reach each other, or one does not reach the other, while the launcher reaches
// both.
void Cluster::strike_link() {
  const int from = pick(static_cast<int>(hosts_.size()));
  const int to =
      (from + 1 + pick(static_cast<int>(hosts_.size()) - 1)) % static_cast<int>(hosts_.size());
  const Time length = random_time(milliseconds(200), seconds(40));
  const bool both = chance(0.5);
  trace(fmt::format("FAULT: host{} does not reach host{}{}", from, to,
                    both ? ", nor the other way" : ""));
  disturb(length);
  extra_ += length;
  cut_links_[{from, to}] = {now_, now_ + length};
  if (both) cut_links_[{to, from}] = {now_, now_ + length};
  const Time bound = kCollectiveWaits +
                     seconds(14);  // a rank may be inside a step or a disk call, or not have joined
  if (length < bound + seconds(1)) return;
  for (const auto& process : processes_) {
    const std::vector<int>& used = process->launcher->hosts_of_ranks;
    const bool concerned = process->alive && process->epoch == process->launcher->epoch &&
                           std::ranges::count(used, from) > 0 && std::ranges::count(used, to) > 0;
    if (concerned) expect_notice(*process, bound, "a link that is cut");
  }
}

std::shared_ptr<Launcher> Cluster::some_launcher() {
  std::vector<std::shared_ptr<Launcher>> alive;
  std::ranges::copy_if(launchers_, std::back_inserter(alive),
                       [](const auto& l) { return l->alive; });
  return alive.empty() ? nullptr : alive[static_cast<size_t>(pick(static_cast<int>(alive.size())))];
}

void Cluster::strike_launcher(int kind) {
  const std::shared_ptr<Launcher> l = some_launcher();
  if (l == nullptr) return;
  const Time length = chance(0.5) ? random_time(milliseconds(100), seconds(6))
                                  : random_time(seconds(2), seconds(60));
  extra_ += length + seconds(30);
  if (kind == kLauncherPause) {
    trace(fmt::format("FAULT: launch {} is stopped", l->number));
    pause(*l, length);
  } else {
    strike_disk_of(*l, length);
  }
}

// Its own files: what ranks write goes well.
void Cluster::strike_disk_of(Launcher& l, Time length) {
  const int what = pick(3);
  trace(fmt::format("FAULT: the disk of launch {} {}", l.number,
                    what == 0   ? "is full"
                    : what == 1 ? "fails"
                                : "hangs"));
  Time& until = what == 0 ? l.trouble.full : what == 1 ? l.trouble.fails : l.trouble.hangs;
  until = std::max(until, now_ + length);
}

void Cluster::launch_beside() {
  trace("FAULT: a second launch");
  extra_ += seconds(30);
  launch_later(Time::zero(), pick(2), pick(2));
}

// Another machine takes the run over while a launcher stands still, or its disk does.
void Cluster::strike_and_launch() {
  const std::shared_ptr<Launcher> l = some_launcher();
  if (l == nullptr) return;
  const Time length = random_time(seconds(14), seconds(40));
  extra_ += length + seconds(60);
  trace(fmt::format("FAULT: launch {} stands still, and a second launch", l->number));
  if (chance(0.5)) {
    pause(*l, length);
  } else {
    strike_disk_of(*l, length);
  }
  launch_later(random_time(Time::zero(), seconds(2)), 1 - l->machine, pick(2));
}

// Somebody wants to go back, and nobody works on the run. It counts if `latest` has named the
// newest tag, so that this is no accident; then nobody may go on from what is left behind.
void Cluster::set_latest() {
  const std::vector<CommittedTag> tags = resumable_tags(*disk_.files, kRoot).tags;
  const std::vector<CommittedTag> all = list_tags(*disk_.files, kRoot).tags;
  if (tags.size() < 2 || !all.front().named) return;
  const CommittedTag& to = tags[1 + static_cast<size_t>(pick(static_cast<int>(tags.size()) - 1))];
  trace(fmt::format("somebody sets latest to {} of epoch {}", to.tag, to.epoch));
  disk_.files->write_text_atomically(join_path(kRoot, "latest"), to.tag);
  const Line line = line_up_to(to);
  for (const CommittedTag& tag : all) {
    if (!line.has(tag.begun_in, tag.step)) left_behind_.insert({tag.tag, tag.epoch});
  }
  committed_step_ = to.step;
  progress_step_ = to.skipped ? 0 : to.step;
}

void Cluster::strike_all(int kind) {
  trace(fmt::format("FAULT: {}", kind == kPowerLoss ? "power loss" : "loss of the launcher"));
  const std::shared_ptr<Launcher> l = some_launcher();
  if (l == nullptr) return;
  disturb(seconds(20));
  extra_ += seconds(30);
  for (const auto& one : launchers_) {
    if (one == l || kind == kPowerLoss) crash(*one);
  }
  for (const auto& process : processes_) {
    const bool reachable = hosts_[static_cast<size_t>(process->host)].reachable();
    if (kind == kPowerLoss || (reachable && process->launcher == l)) die(process, 0, SIGKILL);
  }
  if (kind == kPowerLoss) {
    ++boots_;
    const auto model = chance(0.3) ? CrashModel::kKeepNone : CrashModel::kTorn;
    disk_.files = disk_.files->after_crash(model, draws_());
    // A claim that went with the power went with all that it was made for.
    const std::string opened = join_path(kRoot, "epoch");
    const int64_t newest =
        disk_.files->exists(opened) ? std::stoll("0" + disk_.files->read_text(opened, 128)) : 0;
    claims_.erase(claims_.upper_bound(newest), claims_.end());
    claim_files_.erase(claim_files_.upper_bound(newest), claim_files_.end());
    if (chance(0.5)) set_latest();
  }
  launch_later(random_time(milliseconds(100), seconds(3)),
               chance(0.7) ? l->machine : 1 - l->machine, l->settings);
}

}  // namespace ds::sim
