// A simulated cluster: hosts, links, a shared disk, launchers with the product's lease rules,
// claims, Membership, Recovery and NodePool, and ranks that step, report over the product's
// ReportQueue and save with the product's commit protocol. One thread, one seed, a clock of its
// own. What must hold is checked on the way; the first breach ends the schedule.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "core/fibre/fibre.h"
#include "launcher/decide/lease_rules.h"
#include "launcher/decide/run_core.h"
#include "rankd/control/report_queue.h"
#include "tests/sim/disk.h"

namespace ds::sim {

inline constexpr int64_t kSteps = 16;
inline constexpr int64_t kElements = 12;  // of the one tensor
inline constexpr Time kGrowthsApart = std::chrono::seconds(2);
inline constexpr Time kHostsMayReturn = std::chrono::seconds(20);
inline constexpr Time kAgentsWait = std::chrono::seconds(12);  // for a launcher that says nothing
inline constexpr Time kStreamBreaks =
    std::chrono::seconds(4);  // between hosts, after so much silence
inline constexpr Time kLinkSilence =
    std::chrono::seconds(4);  // after which a rank complains of a link
inline constexpr Time kCollectiveWaits =
    std::chrono::seconds(11);  // for peers that cannot be reached
inline constexpr const char* kRun = "/run";
inline constexpr const char* kRoot = "/run/checkpoints";

struct Settings {
  uint64_t seed = 1;
  MutantSet mutants;
  bool trace = false;
};

struct Result {
  std::string breach;  // what did not hold; empty if all did
  int exit_code = 0;
  int restarts = 0;
  int growths = 0;
  int faults = 0;
  int launches = 0;
  int takeovers = 0;  // of the run of a launcher that still lived
};

struct Message {  // what one rank contributes to a collective
  std::string error;
  FileVote vote;
  bool stop = false;                 // it was asked to save and end
  std::vector<CommittedTag> tags{};  // of rank 0, which looks for all
  bool bad = false;                  // it has numbers that are not finite, and refuses to save them
};

struct LinkCut {
  Time since{}, until{};
};

enum class Cut { kLoses, kDelays };  // what a cut link does to a message

class Cluster;
struct Launcher;
struct Process;

struct Sent {  // from a process, or from the agent about it, to its launcher
  std::shared_ptr<Process> from;
  int stream = 0;
  std::function<void()> act;
  Cut cut = Cut::kLoses;
};

struct Group {  // the communicator of one epoch
  struct Round {
    std::vector<Message> messages;
    int arrived = 0;
    bool complete = false;
  };
  int size = 0;
  bool broken = false;
  std::map<int, Round> rounds;
};

struct Process {
  std::shared_ptr<Launcher> launcher;
  int host = 0;
  int rank = 0;
  int64_t epoch = 0;
  std::string claim;  // the launcher's word for the epoch
  int size = 0;       // of the world
  bool alive = true;
  bool paused = false;  // stopped: does nothing at all
  Time paused_until{};
  Time stall{};        // of its next disk call
  bool stuck = false;  // beats, but does nothing else
  bool owes_wake = false;
  bool admitted = false;
  bool asked_to_stop = false;
  uint64_t block = 0;  // which wait it is in
  int round = 0;
  bool unreached = false;        // it waited too long for peers
  std::optional<int> fail_call;  // disk calls until one fails
  bool disk_full = false;
  Time last_sent{};
  int stream = 1;              // over which it speaks
  int broken_stream = 0;       // what is on its way over this or an older one is lost
  Time contact{};              // when its agent last heard the launcher
  std::optional<int> leaving;  // with this code, once all is acknowledged
  ReportQueue reports{1 << 20};
  RankProgress progress;
  std::shared_ptr<Group> group;
  std::unique_ptr<ProcessDisk> disk;
  std::unique_ptr<Fibre> fibre;
};

struct Host {
  bool alive = true;
  bool hears = true;   // the launcher's messages arrive
  bool speaks = true;  // its messages arrive at the launcher
  int cuts = 0;        // so far
  bool reachable() const { return alive && hears && speaks; }
};

// Whose locks on the lease a launcher sees.
enum class Locks { kEverywhere, kSameMachine, kNone };

enum class Lane { kLease, kClaims, kMetrics, kCount };  // of a launcher's writes

struct WriterLane {
  std::deque<std::function<void()>> jobs;
  Time retry_at{};
};

// What happens to a launcher's own writes, each until then.
struct DiskTrouble {
  Time full{}, fails{}, hangs{};
  bool any(Time now) const { return full > now || fails > now || hangs > now; }
};

struct Claimed {
  int64_t epoch = 0;
  std::string error;
};

// One `dslaunch`: its process, what it writes, and the epoch at hand.
struct Launcher {
  int number = 0;    // counted from 1; its pid, too
  int machine = 0;   // on which it runs
  int settings = 0;  // of the model: launches may differ in them
  // Its process.
  bool alive = true;
  bool paused = false;
  int pauses = 0;
  Time paused_at{}, paused_until{};
  std::vector<Sent> unheard;                // arrived while it was paused
  std::vector<std::function<void()>> owed;  // other things that were due then
  std::optional<int> ending;                // with this code, once its files are written
  uint64_t written = 0;                     // of its jobs, when that was looked at last
  Time written_at{};
  // What it writes, on a thread of its own.
  std::unique_ptr<ProcessDisk> disk;
  std::unique_ptr<Fibre> writer;
  uint64_t block = 0;
  bool idle = false;
  std::array<WriterLane, static_cast<size_t>(Lane::kCount)> lanes;
  size_t turn = 0;
  uint64_t done = 0;
  DiskTrouble trouble;
  bool locked = false;
  bool holds = false;  // has taken the lease
  // Another one has had it since. A write of ours that hung may have overwritten it: then that one
  // ends, and this one goes on, without its metrics and behind its epoch.
  bool followed = false;
  Lease lease;
  std::optional<Time> usurped;  // since when it could know that another one has its lease
  std::optional<std::string> taken_over;
  bool lost = false;
  Time renewed_at{};
  std::optional<Claimed> claimed;
  std::vector<RankPlacement> prepared;  // the epoch that is being claimed
  std::string claim;
  // What it heard.
  std::map<int, uint64_t> heard;  // by rank: the newest report
  std::set<int64_t> steps_taken;  // of the epoch
  std::vector<int64_t> metrics;   // the lines
  std::optional<int64_t> loaded;  // where its first epoch began
  bool reports_lost = false;      // with a rank that had some
  // The run.
  std::unique_ptr<RunCore> core;
  std::vector<int> hosts_of_ranks;
  std::vector<bool> gone;
  int64_t epoch = 0;
  bool first = true;           // no epoch was started yet
  bool innocent = false;       // nothing but launchers had trouble since the epoch began
  bool stopping = false;       // every rank of the epoch is to be killed
  std::set<std::string> back;  // hosts that were found and are in no world yet
  std::optional<Time> grew_at;
  Membership* membership() const { return core ? core->membership() : nullptr; }
  bool running() const { return membership() != nullptr && !membership()->gathering(); }
};

class Cluster {
 public:
  explicit Cluster(const Settings& settings);
  ~Cluster();
  Result run();

  // For the ranks (tests/sim/rank.cpp), from inside their fibres.
  void sleep(Process& process, Time time);
  std::vector<Message> exchange(Process& process, Message mine);
  void wait_for_admission(Process& process);
  void report_step(Process& process, int64_t step);
  void report_commit(Process& process, int64_t step);
  void report_final(Process& process, int code, Blame blame, const std::string& words);
  void committed(Process& process, int64_t step);  // a commit has returned
  void check_line(const CommittedTag& tag);        // which is loaded
  void opened(Process& process);  // the epoch has the root to itself, tags are listed
  void loaded(Process& process, int64_t step);
  // The value of the one tensor of an epoch after a step: ranks say it when they save, and it must
  // be in the tag.
  void computed(const Process& process, int64_t step, int64_t value);
  void check_content(const CommittedTag& tag, std::span<const float> values);
  // These are about the numbers that are trained, by the schedule's seed: whether a step changes
  // nothing, as gradients overflow, and whether weights are finite after it.
  bool skips(int64_t step) const;
  bool is_finite(int64_t step) const { return bad_from_ == 0 || step < bad_from_; }
  bool mutant(Mutant which) const { return disk_.mutants.has(which); }
  void breach(const std::string& what);
  Time random_time(Time low, Time high);
  int pick(int count) { return static_cast<int>(draws_() % static_cast<uint64_t>(count)); }
  bool chance(double probability);

 private:
  struct Event {
    Time at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const {  // the queue's top is the earliest
      return std::tuple(other.at, other.order) < std::tuple(at, order);
    }
  };
  void at(Time when, std::function<void()> act);
  void trace(const std::string& text) const;

  void check_named(const std::string& tag);
  bool has_hosts() const { return hosts_.size() > 1; }  // and agents on them
  bool in_contact(const Process& process) const;

  void wake(const std::shared_ptr<Process>& process, uint64_t block);
  void block(Process& process);
  std::shared_ptr<Process> handle(Process& process);
  void complete_round(const std::shared_ptr<Group>& group, int round);
  bool connected(const Group& group) const;
  bool link_up(int from, int to) const;
  std::vector<CutLink> silent_links_of(const Process& process) const;
  void check_link_verdict(const std::vector<std::string>& without);
  void send_up(Process& process, std::function<void()> act, Cut cut = Cut::kLoses);
  void arrive(const Sent& sent);
  void beat(const std::shared_ptr<Process>& process);
  void die(const std::shared_ptr<Process>& process, int code, int signal,
           const std::string& host_lost = "");
  void spend_disk_time(Process& process, const std::string& operation);

  // reports.cpp
  void report(Process& process, control::RankMessage message);
  void send_reports(Process& process);
  void connect_again(Process& process);
  void take_report(const std::shared_ptr<Process>& process, const control::RankMessage& message);
  void acknowledge(const std::shared_ptr<Process>& process, uint64_t sequence);
  void leave_when_heard(const std::shared_ptr<Process>& process);
  void check_metrics(const Launcher& l);

  // launcher_files.cpp
  void sleep(Launcher& l, Time time);
  void wake_writer(const std::shared_ptr<Launcher>& l, uint64_t block);
  void writer_main(Launcher& l);
  void execute(Launcher& l, WriterLane& lane);
  void post(Launcher& l, Lane lane, std::function<void()> job);
  void spend_writer_time(Launcher& l, const std::string& operation);
  LeaseLock lock_lease(Launcher& l);
  LeaseWitness witness_of(const Launcher& l, const std::string& text) const;
  void take_lease(Launcher& l);
  void renew_lease(Launcher& l);
  void write_lease(Launcher& l);
  void keep_lease(Launcher& l);
  void claim_epoch_for(Launcher& l, const run_action::ClaimEpoch& action);
  void claim_created(const std::string& path, int launch);
  void check_claim(const Launcher& l, int64_t epoch);
  void check_holders();

  // launcher.cpp
  std::shared_ptr<Launcher> handle(Launcher& l);
  // Now or when it goes on; never once it is gone.
  void when_awake(const std::shared_ptr<Launcher>& l, std::function<void()> act);
  void launch(int machine, int settings);
  void launch_later(Time wait, int machine, int settings);
  void begin(Launcher& l);
  NodePool::Options nodes() const;
  std::string host_name(int host) const;
  void spawn(const std::shared_ptr<Process>& process);
  void launcher_step(Launcher& l);
  void take_claim(Launcher& l);
  void miss_hosts(Launcher& l);
  void kill_rest(Launcher& l);
  std::vector<std::shared_ptr<Process>> ranks_of(const Launcher& l) const;
  void execute(Launcher& l, const run_action::ClaimEpoch& action);
  void execute(Launcher& l, const run_action::StartEpoch& action);
  void execute(Launcher& l, const run_action::AdmitRanks& action);
  void execute(Launcher& l, const run_action::SaveAndEnd& action);
  void execute(Launcher& l, const run_action::LearnCause& action);
  void execute(Launcher& l, const run_action::ReportFailure& action);
  void execute(Launcher& l, const run_action::KillRanks& action);
  void execute(Launcher& l, const run_action::EndEpoch& action);
  void execute(Launcher& l, const run_action::AnnounceNext& action);
  void execute(Launcher& l, const run_action::FinishRun& action);
  void execute(Launcher& l, const run_action::SeekHost& action);
  void execute(Launcher& l, const run_action::TryLinks& action);
  void execute(Launcher& l, const run_action::Tell& action);
  void check_blame(const Launcher& l, const Decision& decision, bool excused);
  void tick_every_second(const std::shared_ptr<Launcher>& l);

  // ends.cpp
  void finish(Launcher& l, int code, const std::string& reason);
  void check_end(const Launcher& l, int code, const std::string& reason);
  void depart_when_written(Launcher& l);
  void depart(Launcher& l);
  void crash(Launcher& l);
  void pause(Launcher& l, Time length);
  void go_on(Launcher& l);
  std::shared_ptr<Launcher> some_launcher();

  void plan_faults();
  void plan_duel();
  void plan_hang_at_start();
  void crash_a_rank_of_newest();
  void strike();
  void strike_process(const std::shared_ptr<Process>& process, int kind);
  void strike_host(int host, int kind);
  void strike_launcher(int kind);
  void strike_disk_of(Launcher& l, Time length);
  void strike_and_launch();
  void strike_link();
  void strike_all(int kind);
  void set_latest();
  void launch_beside();
  void disturb(Time length);
  void expect_notice(const Process& process, Time bound, const std::string& what);

  const Settings settings_;
  std::mt19937_64 draws_;
  Time now_{};
  uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  SharedDisk disk_;
  std::vector<Host> hosts_;
  int slots_ = 1;
  bool elastic_ = false;
  bool waits_for_hosts_ = false;
  int spares_ = 0;
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<std::shared_ptr<Launcher>> launchers_;
  int launches_to_come_ = 0;
  int boots_ = 1;
  Locks locks_ = Locks::kEverywhere;
  int holder_ = 0;                                    // which launch wrote the lease last
  std::map<std::pair<int, int>, LinkCut> cut_links_;  // from, to: the newest of each
  std::map<int64_t, int> claims_;                     // epoch -> launch, as claim_epoch gave it out
  std::map<int64_t, int> claim_files_;                // as the disk saw it: who made the file last
  std::map<std::pair<int64_t, int64_t>, int64_t> values_;  // epoch, step -> the tensor's
  Time disturbed_until_{};
  Time extra_{};                // more time that the schedule may take
  int64_t committed_step_ = 0;  // the furthest that any commit has returned for
  int64_t progress_step_ = 0;   // likewise, of a step that was not skipped
  int64_t bad_from_ = 0;        // the first step after which weights are not finite; 0: none
  // Tags that somebody left behind by setting `latest` to an earlier one: their names and epochs.
  std::set<std::pair<std::string, int64_t>> left_behind_;
  int64_t opened_epoch_ = 0;  // the newest that has listed the tags
  int64_t newest_epoch_ = 0;
  bool ambush_ = false;      // the next commit is cut off in its middle
  std::set<int> stillborn_;  // counted over all processes: those that hang before they join
  int spawned_ = 0;
  bool done_ = false;  // some launch has ended with 0
  bool over_ = false;
  Result result_;
};

void rank_main(Cluster& cluster, Process& process);
int64_t next_value(int64_t value, int64_t step, int settings);
// The tensor of a tag. Throws where it cannot be read.
std::vector<float> read_tag(FileSystem& files, const std::string& tag);
// The newest tag that can be read; of step 0 if there is none.
CommittedTag newest_readable(FileSystem& files);

}  // namespace ds::sim
