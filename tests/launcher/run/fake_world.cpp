#include "tests/launcher/run/fake_world.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>
#include <utility>

#include "rankd/control/session.h"

namespace ds::testing {
namespace {

struct Killed {};  // by the launcher

constexpr std::chrono::milliseconds kTurn{1};  // between two looks of a script that waits

}  // namespace

class FakeWorld final : public World {
 public:
  FakeWorld(const FakeStarter& starter, const WorldPlan& plan)
      : starter_(starter), hosts_(hosts_of(plan)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      SocketEnds ends = make_socket_pair();
      ranks_.push_back(std::make_unique<Rank>());
      ranks_.back()->line = duplicate_high(ends.theirs.get());
      launcher_ends_.push_back(std::move(ends.ours));
      Bootstrap bootstrap;
      bootstrap.coordinator_address = fmt::format("fd:{}", ends.theirs.release());
      bootstrap.token = plan.tokens[rank];
      bootstrap.rank = static_cast<int>(rank);
      bootstrap.epoch = plan.epoch;
      bootstrap.config_digest = starter.config_digest;
      ranks_.back()->thread =
          std::thread([this, bootstrap, script = starter.script] { live(bootstrap, script); });
    }
  }
  FakeWorld(const FakeWorld&) = delete;  // its threads refer to it
  FakeWorld& operator=(const FakeWorld&) = delete;
  ~FakeWorld() override {
    kill_all();
    for (const std::unique_ptr<Rank>& rank : ranks_) rank->thread.join();
  }

  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string describe(int rank) const override { return fmt::format("thread {}", rank); }
  std::vector<Fd> take_connections() override { return std::exchange(launcher_ends_, {}); }
  void add_poll_descriptors(std::vector<pollfd>& out) const override {
    out.push_back({wake_.get(), POLLIN, 0});
  }
  void pump(const RankSink& sink) override {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    for (int rank = 0; rank < size(); ++rank) pump_rank(rank, sink);
  }
  std::optional<ExitStatus> newly_ended(int rank, const RankSink& sink) override {
    pump_rank(rank, sink);
    const std::scoped_lock lock(mutex_);
    return std::exchange(at(rank).ended, std::nullopt);
  }
  void kill_all() override {
    for (int rank = 0; rank < size(); ++rank) kill_rank(rank);
  }
  int64_t pid_of(int rank) const override { return 100 + rank; }
  MemoryDeath memory_death_of(int /*rank*/) const override { return starter_.memory_death; }
  std::string loss_of(int rank) const override {
    const std::scoped_lock lock(mutex_);
    return lost_.contains(host_of(rank)) ? loss_ : "";
  }
  std::vector<std::string> lost_hosts() override {
    const std::scoped_lock lock(mutex_);
    return {lost_.begin(), lost_.end()};
  }

  bool killed(int rank) const { return ranks_[static_cast<size_t>(rank)]->killed; }
  void say(int rank, const std::string& line) {
    const std::scoped_lock lock(mutex_);
    at(rank).lines.push_back(line);
    eventfd_write(wake_.get(), 1);
  }
  void lose_host_of(int rank, const std::string& why) {
    {
      const std::scoped_lock lock(mutex_);
      lost_.insert(host_of(rank));
      loss_ = why;
    }
    for (int other = 0; other < size(); ++other) {
      if (host_of(other) == host_of(rank)) kill_rank(other);
    }
  }

 private:
  struct Rank {
    Fd line;  // to the launcher; cut when the rank is killed
    std::atomic<bool> killed = false;
    std::vector<std::string> lines{};
    std::optional<ExitStatus> ended{};
    std::thread thread{};
  };

  static std::vector<std::string> hosts_of(const WorldPlan& plan) {
    std::vector<std::string> out;
    for (const RankPlacement& rank : plan.ranks) out.push_back(rank.host);
    return out;
  }
  Rank& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  const std::string& host_of(int rank) const { return hosts_[static_cast<size_t>(rank)]; }

  void kill_rank(int rank) {
    at(rank).killed = true;
    shutdown(at(rank).line.get(), SHUT_RDWR);
  }
  void pump_rank(int rank, const RankSink& sink) {
    std::vector<std::string> lines;
    {
      const std::scoped_lock lock(mutex_);
      lines = std::exchange(at(rank).lines, {});
    }
    for (const std::string& line : lines) sink(rank, line);
  }
  void live(const Bootstrap& bootstrap, const Script& script) {
    ExitStatus status = killed_by(SIGKILL);
    try {
      ScriptedRank rank(*this, bootstrap,
                        starter_.data_endpoint ? starter_.data_endpoint(bootstrap.rank) : "");
      status = script(rank);
    } catch (const Killed&) {
    } catch (const std::exception& error) {
      if (!killed(bootstrap.rank)) {
        say(bootstrap.rank, fmt::format("the script failed: {}", error.what()));
        status = exit_code(99);
      }
    }
    // Another thread's fork may hold the socket open, but nothing more is said on it.
    shutdown(at(bootstrap.rank).line.get(), SHUT_RDWR);
    const std::scoped_lock lock(mutex_);
    at(bootstrap.rank).ended = killed(bootstrap.rank) ? killed_by(SIGKILL) : status;
    eventfd_write(wake_.get(), 1);
  }

  const FakeStarter& starter_;
  const std::vector<std::string> hosts_;
  const Fd wake_;
  std::vector<Fd> launcher_ends_;
  mutable std::mutex mutex_;  // lines and ends of ranks, and the following
  std::set<std::string> lost_;
  std::string loss_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

ScriptedRank::ScriptedRank(FakeWorld& world, const Bootstrap& bootstrap,
                           const std::string& data_endpoint)
    : world_(world),
      rank_(bootstrap.rank),
      epoch_(bootstrap.epoch),
      control_(connect_control(bootstrap, {}, data_endpoint)) {}

JobPlan ScriptedRank::join() {
  JobPlan plan = control_->join();
  control_->report_progress({0, 0, "train"});
  return plan;
}

void ScriptedRank::step(int64_t number, int64_t total, double loss) {
  control_->report_progress({number, 0, "train"});
  if (rank_ != 0) return;
  StepMetrics metrics{.step = number, .total_steps = total, .values = {{"loss", loss}}};
  control_->report_step(metrics);
}

void ScriptedRank::commit(int64_t step) {
  if (rank_ == 0) control_->report_commit({fmt::format("global_step{}", step), step});
}

void ScriptedRank::say(const std::string& line) { world_.say(rank_, line); }

void ScriptedRank::await(const std::function<bool()>& condition) {
  while (!condition()) {
    if (world_.killed(rank_)) throw Killed();
    std::this_thread::sleep_for(kTurn);
  }
}

Command ScriptedRank::await_command() {
  std::optional<Command> command;
  await([&] { return (command = control_->poll()).has_value(); });
  return *command;
}

void ScriptedRank::await_death() {
  await([] { return false; });
}

void ScriptedRank::lose_host(const std::string& why) { world_.lose_host_of(rank_, why); }

ExitStatus ScriptedRank::finish(ExitCode code, ErrorOrigin origin, const std::string& error) {
  control_->finish(code, origin, error);
  return exit_code(static_cast<int>(code));
}

ExitStatus ScriptedRank::train(int64_t steps) {
  join();
  for (int64_t number = 1; number <= steps; ++number) step(number, steps);
  return finish();
}

void FakeStarter::seek(const std::string& host) {
  const std::scoped_lock lock(mutex_);
  reached_.push_back(host);
  unanswered_.push_back(host);
}

std::vector<CandidateHost> FakeStarter::take_candidates() {
  const std::scoped_lock lock(mutex_);
  std::vector<CandidateHost> out;
  for (const std::string& host : std::exchange(unanswered_, {}))
    out.push_back({host, candidate ? candidate(host) : ""});
  return out;
}

std::string FakeStarter::cut_between(const std::string& host,
                                     const std::vector<RankPlacement>& /*ranks*/) {
  {
    const std::scoped_lock lock(mutex_);
    tried_.push_back(host);
  }
  return links_of ? links_of(host) : "";
}

std::unique_ptr<World> FakeStarter::start(const WorldPlan& plan) {
  {
    const std::scoped_lock lock(mutex_);
    plans_.push_back(plan);
  }
  if (before_start) before_start(plan);
  return std::make_unique<FakeWorld>(*this, plan);
}

}  // namespace ds::testing
