// The hosts of a job and the agents on them, kept over epochs so that a restart needs no new login.
// Finds out how the hosts reach each other and us. Refuses to know ranks.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agents/host_link.h"
#include "launcher/decide/hosts/runner.h"
#include "launcher/process/world.h"

namespace ds {

// One host that can be used.
struct ReachedHost {
  HostLink* link = nullptr;
  std::string data_address;         // literal, by which other hosts reach it
  std::string coordinator_address;  // literal, of this machine, by which it reaches us
};

class HostAgents {
 public:
  struct Options {
    RunnerKind kind = RunnerKind::kSsh;
    RunnerOptions runner;
    std::vector<std::string> environment;            // of ssh, mpirun and srun: ours
    std::string path;                                // where they are looked up
    std::chrono::seconds deadline{20};               // for each host, from the start of its command
    std::optional<std::string> coordinator_address;  // --master-addr
    int interrupt_fd = -1;  // readable when the user wants to stop waiting; -1: nobody can
    std::function<void(const std::string&)> tell{};  // a line for people; empty: nobody listens
  };

  explicit HostAgents(Options options);
  HostAgents(const HostAgents&) = delete;  // agents live on its links
  HostAgents& operator=(const HostAgents&) = delete;
  ~HostAgents();  // asks the agents to go, waits a little, cuts off the rest

  // All of `hosts`, in their order, at once; those that have an agent keep it. Throws HostsUnusable
  // once every host has answered, failed or run out of time.
  std::vector<ReachedHost> reach(const std::vector<std::string>& hosts);

  struct Outcome {
    std::vector<ReachedHost> hosts;  // as asked for; without a link where there is a problem
    std::map<std::string, std::string> problems;  // by host
  };
  // The same without judging. Throws HostsUnusable only where the user wants to stop waiting.
  Outcome try_reach(const std::vector<std::string>& hosts);

  // An agent that came by itself and is ready. Nothing brings it back once it is lost.
  void adopt(std::unique_ptr<HostLink> link);
  // What agents are told to end with; kClusterUnusable until then.
  void end_with(int exit_code) { exit_code_ = exit_code; }
  // The same for one host that nobody uses now, without waiting; take_candidates() says what came
  // of it, and keeps those that wait alive until reach() asks for them.
  void seek(const std::string& host);
  std::vector<CandidateHost> take_candidates();
  void add_poll_descriptors(std::vector<pollfd>& out) const;
  // While no world uses the links: hears and greets the agents, which leave when the launcher falls
  // silent.
  void tend();

 private:
  void connect(const std::string& host);
  bool start_again(const std::string& host);
  void wait_until_settled(const std::vector<std::string>& hosts);
  std::string problem_of(HostLink& link) const;
  void find_addresses(const std::vector<std::string>& hosts, Outcome& out) const;
  std::string address_beside_adopted() const;

  const Options options_;
  std::map<std::string, std::unique_ptr<HostLink>> links_;
  std::map<std::string, std::string> failed_;  // commands that could not even be started
  std::map<std::string, int> starts_;          // of a host's command, since it was asked for
  std::set<std::string> adopted_;
  int exit_code_ = static_cast<int>(ExitCode::kClusterUnusable);
  std::map<std::string, HostLink::Clock::time_point> candidates_;  // until when they are waited for
  std::set<std::string> waiting_;                                  // found, and used by nobody yet
};

// "2 of 3 hosts cannot be used:" and a line for each, in the order of `hosts` (pure).
std::string unusable_text(const std::vector<std::string>& hosts,
                          const std::map<std::string, std::string>& problems);

// What the user can do about a failure that ssh described, empty where we do not know better
// (pure).
std::string advice_for(std::string_view failure);

}  // namespace ds
