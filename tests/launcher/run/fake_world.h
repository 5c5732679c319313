// Worlds without processes, for tests of the supervisor: ranks are threads of the test that follow
// a script and speak over the real control connection. What a process does by itself, its end and
// its lines on standard error, is what the script says. Refuses to know what is tested.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/process/world.h"
#include "rankd/control/bootstrap.h"
#include "rankd/control/control_client.h"

namespace ds::testing {

class FakeWorld;

// One rank in one epoch, in the hands of its script. Whatever waits here ends with an exception
// when the launcher kills the rank, and the rank then ends by SIGKILL.
class ScriptedRank {
 public:
  ScriptedRank(FakeWorld& world, const Bootstrap& bootstrap, const std::string& data_endpoint);

  int rank() const { return rank_; }
  int64_t epoch() const { return epoch_; }
  ControlClient& control() { return *control_; }
  // Returns when the launcher admits the whole world.
  JobPlan join();
  // One step more; rank 0 reports it, with this loss.
  void step(int64_t number, int64_t total, double loss = 2.5);
  void commit(int64_t step);          // tag global_step<n>
  void say(const std::string& line);  // on standard error
  Command await_command();            // the next one
  void await(const std::function<bool()>& condition);
  void await_death();                      // until the launcher kills it
  void lose_host(const std::string& why);  // all of it, with this rank and the host's others
  // Tells the launcher how the rank ends and waits until it knows; the status of a process that
  // does so.
  ExitStatus finish(ExitCode code = ExitCode::kDone, ErrorOrigin origin = ErrorOrigin::kNone,
                    const std::string& error = "");
  // Joins, makes the steps and ends well.
  ExitStatus train(int64_t steps);

 private:
  FakeWorld& world_;
  const int rank_;
  const int64_t epoch_;
  std::unique_ptr<ControlClient> control_;
};

// The life of a rank; returns as what its process ends.
using Script = std::function<ExitStatus(ScriptedRank&)>;

inline constexpr ExitStatus exit_code(int code) { return {code, 0}; }
inline constexpr ExitStatus killed_by(int signal) { return {0, signal}; }

class FakeStarter final : public WorldStarter {
 public:
  Script script;
  std::string config_digest = "digest";                // that ranks have
  std::function<std::string(int rank)> data_endpoint;  // where each listens; not set: nowhere
  // Before the ranks of an epoch are started; may throw what start() may.
  std::function<void(const WorldPlan&)> before_start;
  // The problem of a host that is looked for; empty: it is there.
  std::function<std::string(const std::string& host)> candidate;
  std::function<std::string(const std::string& host)> links_of;
  MemoryDeath memory_death;  // of every rank that is killed

  // What was seen; to be read from any thread.
  std::vector<WorldPlan> plans() const { return read(plans_); }
  std::vector<std::string> reached() const { return read(reached_); }
  std::vector<std::string> tried() const { return read(tried_); }
  int tended() const { return tended_; }

  void seek(const std::string& host) override;
  std::vector<CandidateHost> take_candidates() override;
  std::string cut_between(const std::string& host,
                          const std::vector<RankPlacement>& ranks) override;
  void tend() override { ++tended_; }
  std::unique_ptr<World> start(const WorldPlan& plan) override;

 private:
  template <typename Value>
  Value read(const Value& value) const {
    const std::scoped_lock lock(mutex_);
    return value;
  }
  mutable std::mutex mutex_;  // the following
  std::vector<WorldPlan> plans_;
  std::vector<std::string> reached_;
  std::vector<std::string> unanswered_;
  std::vector<std::string> tried_;
  std::atomic<int> tended_ = 0;
};

}  // namespace ds::testing
