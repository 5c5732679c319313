// A simulated cluster: hosts, links, a shared disk, a launcher with the product's Membership, Recovery and
// NodePool, and ranks that step and save with the product's commit protocol. One thread, one seed, a clock of
// its own. What must hold is checked on the way; the first breach ends the schedule.
#pragma once

#include <cstdint>
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
#include "launcher/growth.h"
#include "launcher/membership.h"
#include "launcher/recovery.h"
#include "tests/sim/disk.h"
#include "tests/sim/fibre.h"

namespace ds::sim {

inline constexpr int64_t kSteps = 16;
inline constexpr int64_t kElements = 12;  // of the one tensor
inline constexpr Time kGrowthsApart = std::chrono::seconds(2);
inline constexpr Time kHostsMayReturn = std::chrono::seconds(20);
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
};

struct Message {  // what one rank contributes to a collective
  std::string error;
  FileVote vote;
  bool stop = false;  // it was asked to save and end
};

enum class Cut { kLoses, kDelays };  // what a cut link does to a message

struct Sent {  // from a process, or from the agent about it, to the launcher
  int host = 0;
  int launch = 0;
  int64_t epoch = 0;
  std::function<void()> act;
  Cut cut = Cut::kLoses;
};

class Cluster;

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
  int host = 0;
  int rank = 0;
  int64_t epoch = 0;
  int launch = 0;  // of which launcher
  int size = 0;    // of the world
  bool alive = true;
  bool paused = false;  // stopped: does nothing at all
  Time paused_until{};
  Time stall{};         // of its next disk call
  bool stuck = false;   // beats, but does nothing else
  bool owes_wake = false;
  bool admitted = false;
  bool asked_to_stop = false;
  uint64_t block = 0;  // which wait it is in
  int round = 0;
  int failures = 0;             // of saves, in a row
  std::optional<int> fail_call; // disk calls until one fails
  bool disk_full = false;
  Time last_sent{};
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

// The launcher's side of the simulation; gone and made again when the launcher crashes.
struct Launcher {
  int number = 0;
  std::unique_ptr<Recovery> recovery;
  std::unique_ptr<Membership> membership;
  std::vector<int> hosts_of_ranks;
  std::vector<bool> gone;
  int64_t epoch = 0;
  Time epoch_started{};
  bool committed = false;
  bool stopping = false;
  bool running = false;
  std::optional<Recourse> recourse;
  bool waiting = false;
  std::unique_ptr<Growth> growth = std::make_unique<Growth>(
      Growth::Options{.first_retry = std::chrono::milliseconds(500),
                      .longest_retry = std::chrono::seconds(4),
                      .settle = std::chrono::milliseconds(200),
                      .apart = kGrowthsApart,
                      .longest_apart = std::chrono::seconds(20)});
  std::set<std::string> back;  // hosts that were found and are in no world yet
  bool growing = false;
  std::optional<Time> grew_at;
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
  void report_final(Process& process, int code, Blame blame, const std::string& words);
  void committed(Process& process, int64_t step);   // a commit has returned
  void opened(Process& process);                    // the epoch has the root to itself, tags are listed
  void loaded(Process& process, int64_t step);
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

  void wake(const std::shared_ptr<Process>& process, uint64_t block);
  void block(Process& process);
  std::shared_ptr<Process> handle(Process& process);
  void complete_round(const std::shared_ptr<Group>& group, int round);
  bool connected(const Group& group) const;
  void send_up(Process& process, std::function<void()> act, Cut cut = Cut::kLoses);
  void arrive(const Sent& sent);
  void beat(const std::shared_ptr<Process>& process);
  void die(const std::shared_ptr<Process>& process, int code, int signal);
  void body(const std::shared_ptr<Process>& process);
  void spend_disk_time(Process& process, const std::string& operation);

  void launch();
  NodePool make_pool() const;
  void start_epoch(const std::vector<RankPlacement>& world);
  void spawn(const std::shared_ptr<Process>& process);
  void launcher_step();
  void stop_all(const Decision& decision);
  void look_for_hosts();
  void try_hosts();
  void await_hosts(int number, Time give_up);
  void begin_growth();
  void epoch_over(const Decision& decision);
  void finish(int code, const std::string& reason);
  void tick_every_second(int number);

  void plan_faults();
  void strike();
  void strike_process(const std::shared_ptr<Process>& process, int kind);
  void strike_host(int host, int kind);
  void strike_all(int kind);
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
  Launcher launcher_;
  int64_t committed_step_ = 0;   // the furthest that any commit has returned for
  int64_t opened_epoch_ = 0;     // the newest that has listed the tags
  int64_t newest_epoch_ = 0;
  int64_t launched_epoch_ = 0;   // as the launcher notes it in the run directory
  int faults_left_ = 0;
  bool ambush_ = false;          // the next commit is cut off in its middle
  bool over_ = false;
  Result result_;
};

void rank_main(Cluster& cluster, Process& process);
float value_at(int64_t step);
// Whether the newest tag that can be read has this step and the right content.
int64_t newest_readable_step(FileSystem& files);

}  // namespace ds::sim
