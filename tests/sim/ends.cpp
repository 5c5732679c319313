// How a simulated launcher ends, is lost, is stopped and goes on, and what must hold of the run
// then.
#include <algorithm>
#include <csignal>
#include <utility>

#include "core/status/error.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRequeue = static_cast<int>(ExitCode::kRequeue);
constexpr int kMostLaunches = 12;  // by then a patient user has seen that it does not work

}  // namespace

// The exit code must say what happened.
void Cluster::check_end(const Launcher& l, int code, const std::string& reason) {
  if (l.taken_over && code != kRequeue) {
    breach(fmt::format("launch {} was taken over, but ends with {}: {}", l.number, code, reason));
  }
  if (!l.holds && code == kRequeue) return;  // refused
  const int64_t newest = newest_readable(*disk_.files).step;
  if (newest < committed_step_) {
    breach(fmt::format("at the end step {} was committed, but only {} can be read", committed_step_,
                       newest));
  } else if (code == 0 && newest != kSteps) {
    breach(fmt::format("exit code 0, but the newest tag is of step {}", newest));
  }
  const bool hosts_lost =
      std::ranges::any_of(hosts_, [](const Host& host) { return !host.reachable(); }) ||
      reason.find("nodes are left") != std::string::npos;
  const bool explained = code == 0 ||
                         (code == 76 && reason.find("nodes are left") != std::string::npos) ||
                         (code == 69 && hosts_lost) ||
                         (reason.find("times in a row") != std::string::npos &&
                          reason.find("the network between hosts is cut") == std::string::npos) ||
                         (code == 74 && l.first && reason.find("injected") != std::string::npos) ||
                         (code == kRequeue && l.taken_over) ||
                         (code == static_cast<int>(ExitCode::kValidation) && bad_from_ > 0);
  if (!explained) breach(fmt::format("exit code {}: {}", code, reason));
}

void Cluster::finish(Launcher& l, int code, const std::string& reason) {
  if (!l.alive || l.ending) return;
  trace(fmt::format("launch {} ends with {}: {}", l.number, code, reason));
  check_end(l, code, reason);
  l.ending = code;
  l.written_at = now_;
  if (l.holds) {
    post(l, Lane::kLease, [this, &l, code] {
      if (std::exchange(l.lease.over, true)) return;  // another one's by now
      l.lease.exit_code = code;
      try {
        write_lease(l);
      } catch (const Error&) {
        return;  // the next launch finds out
      }
    });
  }
  depart_when_written(l);
}

// Not longer than 10 s without any progress.
void Cluster::depart_when_written(Launcher& l) {
  const bool written =
      std::ranges::all_of(l.lanes, [](const WriterLane& lane) { return lane.jobs.empty(); });
  if (std::exchange(l.written, l.done) != l.done) l.written_at = now_;
  if (written || l.lost || now_ - l.written_at > seconds(10)) {
    if (written && *l.ending == 0) check_metrics(l);
    depart(l);
    return;
  }
  at(now_ + milliseconds(20),
     [this, me = handle(l)] { when_awake(me, [this, me] { depart_when_written(*me); }); });
}

// Who was refused, or had a full disk from the start, tries again when nobody else works on the
// run.
void Cluster::depart(Launcher& l) {
  const int code = *l.ending;
  l.alive = l.locked = false;
  l.writer->kill();
  done_ = done_ || code == 0;
  if (code != kRequeue) result_.exit_code = code;
  const bool others =
      std::ranges::any_of(launchers_, [](const auto& other) { return other->alive; });
  if (others || (launches_to_come_ > 0 && !done_)) return;
  const bool again = code == kRequeue || (code == static_cast<int>(ExitCode::kStorage) && l.first);
  if (done_ || !again) {
    over_ = true;
  } else if (static_cast<int>(launchers_.size()) >= kMostLaunches) {
    breach(fmt::format("after {} launches nobody works on the run", launchers_.size()));
  } else {
    launch_later(random_time(seconds(1), seconds(3)), pick(2), l.settings);
  }
}

// kill -9, or its machine is gone.
void Cluster::crash(Launcher& l) {
  if (!l.alive) return;
  l.alive = l.locked = false;
  l.writer->kill();
  l.core.reset();
}

void Cluster::pause(Launcher& l, Time length) {
  if (!std::exchange(l.paused, true)) l.paused_at = now_;
  ++l.pauses;
  l.paused_until = std::max(l.paused_until, now_ + length);
  at(now_ + length, [this, me = handle(l)] {
    if (me->alive && me->paused && now_ >= me->paused_until) go_on(*me);
  });
}

// What has arrived meanwhile is heard now, before, after or while the clock is looked at. A stream
// between hosts that stood still for too long has broken: the tail of what was sent over it is
// lost.
void Cluster::go_on(Launcher& l) {
  trace(fmt::format("launch {} goes on", l.number));
  l.paused = false;
  const Time gap = now_ - l.paused_at;
  if (l.core && gap >= milliseconds(2500)) l.core->event(now_, run_event::StoodStill{gap});
  const std::shared_ptr<Launcher> me = handle(l);
  const bool broken = has_hosts() && gap >= kStreamBreaks;
  if (chance(0.5)) launcher_step(l);
  for (const Sent& sent : std::exchange(l.unheard, {})) {
    if (broken && sent.cut == Cut::kLoses && chance(0.1))
      sent.from->broken_stream = sent.from->stream;
    arrive(sent);
  }
  Time when = now_;
  for (auto& act : std::exchange(l.owed, {}))
    at(when += Time(1000), [this, me, act] { when_awake(me, act); });
  at(when += Time(1000), [this, me] { launcher_step(*me); });
  for (const auto& process : processes_) {
    if (!broken || !process->alive || process->launcher != me) continue;
    at(when + random_time(milliseconds(1), milliseconds(300)), [this, process] {
      if (process->alive) connect_again(*process);
    });
  }
}

}  // namespace ds::sim
