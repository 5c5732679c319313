// What a simulated launcher writes: its lease, by the product's LeaseContest; claims, by the
// product's claim_epoch; and metrics. All of it on a thread of its own that tries again what fails,
// as core/tasks/background_writer and launcher/report/run_records do it, so that a disk that
// fails or hangs stops nothing else.
#include <algorithm>
#include <charconv>
#include <utility>

#include "core/status/error.h"
#include "launcher/process/files/epoch_claim.h"
#include "launcher/process/run_lease.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kLease = "/run/lease.json";
constexpr const char* kLogs = "/run/logs";

std::string lease_text(FileSystem& files) {
  return files.exists(kLease) ? files.read_text(kLease, kLeaseBytes) : "";
}

}  // namespace

// --- its thread
// -----------------------------------------------------------------------------------

void Cluster::wake_writer(const std::shared_ptr<Launcher>& l, uint64_t block) {
  when_awake(l, [this, l, block] {
    if (l->block != block || over_) return;
    ++l->block;
    l->writer->resume();
  });
}

void Cluster::sleep(Launcher& l, Time time) {
  at(now_ + time, [this, me = handle(l), block = l.block] { wake_writer(me, block); });
  Fibre::give_way();
}

void Cluster::spend_writer_time(Launcher& l, const std::string& operation) {
  sleep(l, random_time(Time(50'000), milliseconds(2)));
  while (l.trouble.hangs > now_) sleep(l, l.trouble.hangs - now_);
  // A lease is written over, and a name takes no room.
  const bool full = l.trouble.full > now_ && operation == "write";
  if (full || l.trouble.fails > now_)
    trace(fmt::format("launch {}: {} fails", l.number, operation));
  if (full) throw DiskFull("injected: " + operation);
  if (l.trouble.fails > now_) throw IoError("injected: " + operation);
}

void Cluster::post(Launcher& l, Lane lane, std::function<void()> job) {
  if (l.lost) return;
  l.lanes[static_cast<size_t>(lane)].jobs.push_back(std::move(job));
  if (l.idle) at(now_, [this, me = handle(l), block = l.block] { wake_writer(me, block); });
}

void Cluster::execute(Launcher& l, WriterLane& lane) {
  try {
    lane.jobs.front()();
    lane.jobs.pop_front();
    lane.retry_at = {};
    ++l.done;
  } catch (const Error&) {
    const Time wait = l.ending ? milliseconds(100) : milliseconds(1000);
    lane.retry_at = now_ + wait;
    at(lane.retry_at, [this, me = handle(l)] {
      if (me->idle) wake_writer(me, me->block);
    });
  }
}

void Cluster::writer_main(Launcher& l) {
  try {
    take_lease(l);
    l.holds = true;
    trace(fmt::format("launch {} has the lease", l.number));
    at(now_, [this, me = handle(l)] { when_awake(me, [this, me] { begin(*me); }); });
  } catch (const Error& failure) {
    at(now_, [this, me = handle(l), code = static_cast<int>(failure.exit_code()),
              why = std::string(failure.what())] { finish(*me, code, why); });
  }
  while (true) {
    WriterLane* next = nullptr;
    for (size_t i = 0; i < l.lanes.size() && next == nullptr; ++i) {
      WriterLane& lane = l.lanes[(l.turn + i) % l.lanes.size()];
      if (!lane.jobs.empty() && lane.retry_at <= now_) next = &lane;
    }
    if (next != nullptr) {
      l.turn = static_cast<size_t>(next - l.lanes.data()) + 1;
      execute(l, *next);
      continue;
    }
    l.idle = true;
    Fibre::give_way();
    l.idle = false;
  }
}

// --- the lease
// ------------------------------------------------------------------------------------

LeaseLock Cluster::lock_lease(Launcher& l) {
  if (locks_ == Locks::kNone) return LeaseLock::kUnsupported;
  const bool held = std::ranges::any_of(launchers_, [&](const auto& other) {
    return other.get() != &l && other->alive && other->locked &&
           (locks_ == Locks::kEverywhere || other->machine == l.machine);
  });
  l.locked = !held;
  return held ? LeaseLock::kHeld : LeaseLock::kOurs;
}

LeaseWitness Cluster::witness_of(const Launcher& l, const std::string& text) const {
  const std::optional<Lease> lease = parse_lease(text);
  return {.kernel = l.lease.kernel,
          .pid_namespace = l.lease.pid_namespace,
          .holder_runs = lease && std::ranges::any_of(launchers_, [&](const auto& other) {
                           return other->alive && other->number == lease->pid &&
                                  other->machine == l.machine;
                         })};
}

// As launcher/process/run_lease.cpp does it.
void Cluster::take_lease(Launcher& l) {
  l.disk->make_directories(kLogs);
  if (!disk_.files->exists(kLease)) {
    try {
      l.disk->create(kLease);
    } catch (const IoError&) {
      if (!disk_.files->exists(kLease)) throw;
    }
  }
  const LeaseLock lock = lock_lease(l);
  LeaseContest contest;
  while (true) {
    const std::string text = lease_text(*disk_.files);
    const LeaseContest::Verdict verdict = contest.look(now_, lock, text, witness_of(l, text));
    if (verdict == LeaseContest::Verdict::kTake) break;
    if (verdict == LeaseContest::Verdict::kRefuse)
      throw LeaseRefused("another dslaunch works here");
    sleep(l, milliseconds(100));
  }
  write_lease(l);
  if (lock == LeaseLock::kUnsupported) {
    sleep(l, milliseconds(500));
    renew_lease(l);
  }
}

// In one system call, so that nobody reads a half of it.
void Cluster::write_lease(Launcher& l) {
  l.disk->spend("lease");
  const std::string text = to_text(l.lease);
  disk_.files->open(kLease)->write(0, std::as_bytes(std::span(text)));
  if (std::exchange(holder_, l.number) == l.number) return;
  for (const auto& other : launchers_) {
    if (other.get() == &l) continue;
    if (other->alive && other->holds && !other->followed) ++result_.takeovers;
    other->followed = true;
  }
}

void Cluster::renew_lease(Launcher& l) {
  l.disk->spend("read");
  if (is_anothers(lease_text(*disk_.files), l.lease)) {
    l.lease.over = true;
    throw LeaseRefused("another dslaunch has taken this run over");
  }
  ++l.lease.renewals;
  write_lease(l);
}

void Cluster::keep_lease(Launcher& l) {
  const WriterLane& lane = l.lanes[static_cast<size_t>(Lane::kLease)];
  if (now_ - l.renewed_at < kLeaseRenewal || !lane.jobs.empty()) return;
  l.renewed_at = now_;
  post(l, Lane::kLease, [this, &l] {
    try {
      renew_lease(l);
    } catch (const LeaseRefused& taken) {
      l.taken_over = taken.what();
    }
  });
}

// Nobody goes on for long beside another one that has taken the run over.
void Cluster::check_holders() {
  if (launchers_.size() < 2) return;
  constexpr Time kNoticed = kLeaseRenewal + seconds(3);
  for (const auto& l : launchers_) {
    const bool works = l->alive && l->holds && !l->ending && !l->paused && !l->lost;
    const bool usurped = works && holder_ != l->number && !l->trouble.any(now_);
    if (!usurped) {
      l->usurped.reset();
    } else if (!l->usurped) {
      l->usurped = now_;
    } else if (now_ - *l->usurped > kNoticed) {
      breach(fmt::format("launch {} goes on, although launch {} took the run over", l->number,
                         holder_));
    }
  }
}

// --- claims
// ---------------------------------------------------------------------------------------

void Cluster::claim_epoch_for(Launcher& l, const run_action::ClaimEpoch& action) {
  const int64_t wanted = action.at_least;
  l.claimed.reset();
  l.claim = fmt::format("launch{}-{}", l.number, wanted);
  post(l, Lane::kClaims, [this, &l, wanted, first = action.first] {
    Claimed claimed;
    try {
      renew_lease(l);  // who has lost the run may not go on with it
      claimed.epoch = mutant(Mutant::kSameEpoch) ? std::max<int64_t>(1, l.epoch)
                                                 : claim_epoch(*l.disk, kRun, wanted, l.claim);
      check_claim(l, claimed.epoch);
      renew_lease(l);  // the disk may have kept us waiting for so long that it is another's by now
    } catch (const LeaseRefused& taken) {
      l.taken_over = taken.what();
    } catch (const Error& failure) {
      if (!first) throw;
      claimed.error = failure.what();
    }
    if (!l.taken_over) l.claimed = claimed;
    at(now_, [this, me = handle(l)] { launcher_step(*me); });
  });
}

void Cluster::claim_created(const std::string& path, int launch) {
  const std::string prefix = join_path(kLogs, "generation.");
  if (!path.starts_with(prefix)) return;
  int64_t epoch = 0;
  std::from_chars(path.data() + prefix.size(), path.data() + path.size(), epoch);
  claim_files_[epoch] = launch;
}

void Cluster::check_claim(const Launcher& l, int64_t epoch) {
  trace(fmt::format("launch {} claims epoch {}", l.number, epoch));
  const auto [at, added] = claims_.try_emplace(epoch, l.number);
  if (!added && at->second != l.number) {
    breach(fmt::format("launches {} and {} have claimed the same epoch {}", at->second, l.number,
                       epoch));
  }
  if (claim_files_[epoch] != l.number) {
    breach(fmt::format("launch {} takes epoch {} for its own, but has not claimed it", l.number,
                       epoch));
  }
}

}  // namespace ds::sim
