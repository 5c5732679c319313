// Time, messages and processes of the simulated cluster.
#include "tests/sim/cluster.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "checkpoint/tag_list.h"
#include "core/status/error.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

double in_seconds(Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Cluster::Cluster(const Settings& settings) : settings_(settings), draws_(settings.seed) {
  disk_.mutants = settings.mutants;
  disk_.tag_named = [this](const std::string& tag, int64_t epoch) {
    if (epoch < opened_epoch_) {
      breach(fmt::format("{} was committed by epoch {} after epoch {} had looked for tags", tag,
                         epoch, opened_epoch_));
    }
    check_named(tag);
  };
  disk_.created = [this](const std::string& path, int launch) { claim_created(path, launch); };
  disk_.files->make_directories(kRun);
  hosts_.resize(static_cast<size_t>(1 + pick(3)));
  slots_ = hosts_.size() == 1 ? 2 + pick(2) : 1 + pick(2);
  elastic_ = chance(0.6);
  waits_for_hosts_ = chance(0.5);
  spares_ = hosts_.size() > 1 && chance(0.4) ? 1 : 0;
  if (std::mt19937_64 draws(settings_.seed); draws() % 16 == 0)
    bad_from_ = 2 + static_cast<int64_t>(draws() % kSteps);
  locks_ = std::array{Locks::kEverywhere, Locks::kSameMachine,
                      Locks::kNone}[static_cast<size_t>(pick(3))];
}

// The fibres end first: they hold references to everything else.
Cluster::~Cluster() {
  over_ = true;
  for (const auto& process : processes_) process->fibre->kill();
  for (const auto& l : launchers_) l->writer->kill();
}

Time Cluster::random_time(Time low, Time high) {
  const auto width = static_cast<uint64_t>((high - low).count()) + 1;
  return low + Time(static_cast<int64_t>(draws_() % width));
}

bool Cluster::chance(double probability) {
  return static_cast<double>(draws_() >> 11) * 0x1.0p-53 < probability;
}

void Cluster::breach(const std::string& what) {
  if (result_.breach.empty())
    result_.breach = fmt::format("at {:.3f} s: {}", in_seconds(now_), what);
  over_ = true;
}

void Cluster::trace(const std::string& text) const {
  if (settings_.trace) fmt::print("{:9.3f}  {}\n", in_seconds(now_), text);
}

void Cluster::at(Time when, std::function<void()> act) {
  events_.push({when, order_++, std::move(act)});
}

Result Cluster::run() {
  plan_faults();
  launch_later(Time::zero(), 0, 0);
  while (!over_ && !events_.empty()) {
    const Event event = std::move(const_cast<Event&>(events_.top()));  // it is popped in any case
    events_.pop();
    now_ = event.at;
    if (const Time limit = seconds(60) + seconds(90) * result_.faults + extra_; now_ > limit) {
      std::string where;
      for (const auto& l : launchers_) {
        if (!l->alive) continue;
        where +=
            fmt::format("; launch {}: {}", l->number,
                        l->membership() != nullptr ? l->membership()->explain() : "between epochs");
      }
      breach(fmt::format("no end after {:.0f} s{}", in_seconds(limit), where));
      break;
    }
    event.act();
    check_holders();
  }
  result_.launches = static_cast<int>(launchers_.size());
  if (!over_) breach("nothing more happens, and the run has not ended");
  return result_;
}

// --- processes
// ------------------------------------------------------------------------------------

std::shared_ptr<Process> Cluster::handle(Process& process) {
  for (const auto& other : processes_) {
    if (other.get() == &process) return other;
  }
  throw InternalError("sim: no such process");
}

void Cluster::wake(const std::shared_ptr<Process>& process, uint64_t block) {
  if (!process->alive || process->block != block) return;
  if (process->paused || process->stuck) {
    process->owes_wake = true;
    return;
  }
  ++process->block;
  process->fibre->resume();
}

void Cluster::block(Process& process) {
  static_cast<void>(process);
  Fibre::give_way();
}

void Cluster::sleep(Process& process, Time time) {
  at(now_ + time, [this, me = handle(process), block = process.block] { wake(me, block); });
  block(process);
}

void Cluster::spend_disk_time(Process& process, const std::string& operation) {
  if (ambush_ && process.rank == 0 && process.progress.phase == "save" && operation == "rename" &&
      chance(0.5)) {
    ambush_ = false;
    strike_host(process.host, 1 + pick(3));
    process.stall = random_time(seconds(4), seconds(9));
  }
  sleep(process,
        random_time(Time(50'000), milliseconds(2)) + std::exchange(process.stall, Time::zero()));
  if (process.fail_call && --*process.fail_call < 0) {
    process.fail_call.reset();
    trace(fmt::format("rank {} of epoch {}: {} fails", process.rank, process.epoch, operation));
    if (process.disk_full) throw DiskFull("injected: " + operation);
    throw IoError("injected: " + operation);
  }
}

void Cluster::wait_for_admission(Process& process) {
  const WorldMember member{process.rank, process.epoch, fmt::format("host{}", process.host), 1};
  for (int copies = chance(0.05) ? 2 : 1; copies > 0; --copies) {  // a message may come twice
    send_up(
        process,
        [this, member, me = handle(process)] {
          const auto refusal = me->launcher->membership()->joined(now_, member);
          if (refusal) trace(fmt::format("rank {} refused: {}", member.rank, *refusal));
        },
        Cut::kDelays);  // over a network it asks again
  }
  while (!process.admitted) block(process);
}

bool Cluster::link_up(int from, int to) const {
  const auto cut = cut_links_.find({from, to});
  return cut == cut_links_.end() || cut->second.until <= now_;
}

// As comm/tcp/link_pulse: what a rank's kernel has sent there is not acknowledged, because either
// way is cut.
std::vector<CutLink> Cluster::silent_links_of(const Process& process) const {
  const auto silent = [&](int from, int to) {
    return !link_up(from, to) && now_ - cut_links_.at({from, to}).since >= kLinkSilence;
  };
  std::vector<CutLink> out;
  const std::vector<int>& hosts = process.launcher->hosts_of_ranks;
  for (size_t peer = 0; peer < hosts.size(); ++peer) {
    const bool there = silent(process.host, hosts[peer]);
    if (hosts[peer] == process.host || (!there && !silent(hosts[peer], process.host))) continue;
    out.push_back({static_cast<int>(peer), link_up(hosts[peer], process.host), "silence"});
  }
  return out;
}

bool Cluster::connected(const Group& group) const {
  std::set<int> where;
  for (const auto& process : processes_) {
    if (process->group.get() == &group) where.insert(process->host);
  }
  if (where.size() < 2) return true;
  // A host that is cut off from the launcher is cut off from the other hosts, too.
  return std::ranges::all_of(where, [&](int from) {
    return hosts_[static_cast<size_t>(from)].reachable() &&
           std::ranges::all_of(where, [&](int to) { return from == to || link_up(from, to); });
  });
}

void Cluster::complete_round(const std::shared_ptr<Group>& group, int round) {
  if (group->broken) return;
  if (!connected(*group)) {
    at(now_ + milliseconds(100), [this, group, round] { complete_round(group, round); });
    return;
  }
  group->rounds[round].complete = true;
  for (const auto& process : processes_) {
    if (process->group != group || process->round != round) continue;
    at(now_ + random_time(Time(100'000), milliseconds(3)),
       [this, process, block = process->block] { wake(process, block); });
  }
}

std::vector<Message> Cluster::exchange(Process& process, Message mine) {
  const std::shared_ptr<Group> group = process.group;
  const int number = process.round;
  Group::Round& round = group->rounds[number];
  round.messages.resize(static_cast<size_t>(group->size));
  round.messages[static_cast<size_t>(process.rank)] = std::move(mine);
  process.progress.collective = {static_cast<uint64_t>(number) + 1, "data",
                                 static_cast<uint64_t>(number) + 1, "all_gather", true};
  if (++round.arrived == group->size) {
    at(now_, [this, group, number] { complete_round(group, number); });
  }
  at(now_ + kCollectiveWaits, [this, me = handle(process), number] {
    if (!me->alive || me->round != number || connected(*me->group)) return;
    me->unreached = true;
    wake(me, me->block);
  });
  while (!round.complete) {
    const Host& host = hosts_[static_cast<size_t>(process.host)];
    if (group->broken && host.reachable()) throw CommError("a peer is gone");
    if (process.unreached) throw CommError("peers cannot be reached");
    block(process);
  }
  process.progress.collective.inside = false;
  ++process.round;
  return round.messages;
}

// `host_lost`: why, where the process went with its agent.
void Cluster::die(const std::shared_ptr<Process>& process, int code, int signal,
                  const std::string& host_lost) {
  if (!process->alive) return;
  process->alive = false;
  trace(fmt::format("rank {} of epoch {} on host{} ends: code {} signal {} {}", process->rank,
                    process->epoch, process->host, code, signal, host_lost));
  if (signal != 0 && !process->reports.all_acknowledged()) process->launcher->reports_lost = true;
  if (Fibre::running() != process->fibre.get()) process->fibre->kill();
  if (!hosts_[static_cast<size_t>(process->host)].alive) return;  // nobody is there to notice
  if ((code != 0 && code != static_cast<int>(ExitCode::kRequeue)) || signal != 0) {
    const std::shared_ptr<Group> group = process->group;
    at(now_ + random_time(milliseconds(1), milliseconds(60)), [this, group] {
      group->broken = true;
      for (const auto& peer : processes_) {
        // Those inside other calls find out when they come to the next collective.
        if (peer->group == group && peer->progress.collective.inside) wake(peer, peer->block);
      }
    });
  }
  if (mutant(Mutant::kDeafToEnds)) return;
  // The agent tells of it, over a connection that a short cut only delays.
  send_up(
      *process,
      [this, l = process->launcher, rank = process->rank, code, signal, host_lost] {
        l->gone[static_cast<size_t>(rank)] = true;
        if (host_lost.empty()) {
          l->membership()->ended(now_, rank, code, signal);
        } else {
          l->membership()->host_lost(now_, rank, host_lost);
        }
      },
      Cut::kDelays);
}

// --- messages
// -------------------------------------------------------------------------------------

// In order per process, as on one connection; nothing for a launcher or an epoch that is no more.
void Cluster::send_up(Process& process, std::function<void()> act, Cut cut) {
  const Host& from = hosts_[static_cast<size_t>(process.host)];
  if (!from.alive || (!from.speaks && cut == Cut::kLoses)) return;
  const Time arrival =
      std::max(process.last_sent + Time(1), now_ + random_time(Time(200'000), milliseconds(20)));
  process.last_sent = arrival;
  at(arrival,
     [this, sent = Sent{handle(process), process.stream, std::move(act), cut}] { arrive(sent); });
}

void Cluster::arrive(const Sent& sent) {
  const Host& from = hosts_[static_cast<size_t>(sent.from->host)];
  Launcher& l = *sent.from->launcher;
  if (!from.alive || !l.alive || l.membership() == nullptr || sent.from->epoch != l.epoch) return;
  if (sent.cut == Cut::kLoses && sent.stream <= sent.from->broken_stream) return;
  if (!from.speaks) {
    if (sent.cut == Cut::kDelays) at(now_ + milliseconds(200), [this, sent] { arrive(sent); });
    return;
  }
  if (l.paused) {  // the kernel keeps it
    l.unheard.push_back(sent);
    return;
  }
  sent.act();
  launcher_step(l);
}

bool Cluster::in_contact(const Process& process) const {
  const Launcher& l = *process.launcher;
  return l.alive && !l.paused && hosts_[static_cast<size_t>(process.host)].reachable();
}

// The rank sends a heartbeat, and its agent watches the launcher, whether or not the rank runs.
void Cluster::beat(const std::shared_ptr<Process>& process) {
  if (!process->alive || over_) return;
  if (in_contact(*process)) process->contact = now_;
  if (has_hosts() && now_ - process->contact > kAgentsWait) {
    die(process, 0, SIGKILL, "its agent heard nothing from dslaunch for 12 s");
    return;
  }
  if (!process->paused && process->admitted) {
    send_up(*process, [this, l = process->launcher, rank = process->rank, epoch = process->epoch,
                       progress = process->progress, silent = silent_links_of(*process)] {
      if (l->membership()->heartbeat(now_, epoch, rank, progress))
        l->membership()->links_reported(now_, rank, silent);
    });
  }
  at(now_ + seconds(1), [this, process] { beat(process); });
}

// --- what must hold of the tags
// -------------------------------------------------------------------

void Cluster::committed(Process& process, int64_t step) {
  trace(fmt::format("epoch {} has committed step {}", process.epoch, step));
  committed_step_ = std::max(committed_step_, step);
  if (!skips(step)) progress_step_ = std::max(progress_step_, step);
  report_commit(process, step);
}

void Cluster::opened(Process& process) {
  opened_epoch_ = std::max(opened_epoch_, process.epoch);
  if (process.epoch < newest_epoch_) return;  // a late one, that will find its links cut
  const int64_t newest = newest_readable(*disk_.files).step;
  trace(fmt::format("epoch {} finds step {}", process.epoch, newest));
  if (newest < committed_step_) {
    breach(fmt::format("step {} was committed, but only {} can be read", committed_step_, newest));
  }
  const Resumable list = resumable_tags(*disk_.files, kRoot);
  const bool progress =
      progress_step_ == 0 || std::ranges::any_of(list.tags, [&](const CommittedTag& tag) {
        return !tag.skipped && tag.step >= progress_step_;
      });
  if (!progress) {
    breach(fmt::format("step {} was committed, but only steps that changed nothing are left",
                       progress_step_));
  }
}

// A step after the first is skipped in one of four cases, in all epochs alike.
bool Cluster::skips(int64_t step) const {
  std::mt19937_64 draws(settings_.seed * 1000003 + static_cast<uint64_t>(step));
  return step > 1 && draws() % 4 == 0;
}

void Cluster::check_line(const CommittedTag& tag) {
  if (left_behind_.contains({tag.tag, tag.epoch})) {
    breach(fmt::format("{} of epoch {} was left behind, but is gone on with", tag.tag, tag.epoch));
  }
}

void Cluster::loaded(Process& process, int64_t step) {
  if (process.rank == 0 && !process.launcher->loaded) process.launcher->loaded = step;
  if (process.epoch < newest_epoch_) return;
  if (step < committed_step_ && process.rank == 0) {
    breach(fmt::format("resumed from step {} although {} was committed", step, committed_step_));
  }
}

// A tag that has just got its name is whole.
void Cluster::check_named(const std::string& tag) {
  try {
    for (const CommittedTag& there : list_tags(*disk_.files, kRoot).tags) {
      if (there.tag != tag) continue;
      check_content(there, read_tag(*disk_.files, tag));
      if (!is_finite(there.step)) breach(fmt::format("{} has numbers that are not finite", tag));
    }
  } catch (const Error& defect) {
    breach(fmt::format("{} was committed, but: {}", tag, defect.what()));
  }
}

void Cluster::computed(const Process& process, int64_t step, int64_t value) {
  const auto [at, added] = values_.try_emplace({process.epoch, step}, value);
  if (!added && at->second != value) {
    breach(fmt::format("the ranks of epoch {} have other values at step {}", process.epoch, step));
  }
}

// The content must be of no other launcher's model, and of no other step.
void Cluster::check_content(const CommittedTag& tag, std::span<const float> values) {
  const auto expected = values_.find({tag.epoch, tag.step});
  const bool right = expected != values_.end() && std::ranges::all_of(values, [&](float value) {
                       return value == static_cast<float>(expected->second);
                     });
  if (!right)
    breach(fmt::format("{} of epoch {} has other content than that epoch had", tag.tag, tag.epoch));
}

}  // namespace ds::sim
