// Hosts that come back or are added while a run goes on: looking for them, and making room for a larger world at
// the next step edge. What is tried when is launcher/growth.h.
#include <algorithm>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "launcher/supervisor.h"

namespace ds {

// Only while an epoch runs: its hosts are settled then, and no other one is in use.
void Supervisor::look_for_hosts() {
  if (!world_ || !membership_->running() || stop_) return;
  for (const std::string& host : growth_.to_try(now())) {
    log_->info("looking for host {}", host);
    starter_.seek(host);
  }
  for (const SoughtHost& sought : starter_.take_sought()) {
    if (sought.problem.empty()) {
      growth_.found(now(), sought.host);
      recovery_.pool().bring_back(sought.host);
      log_->info("host {} is there", sought.host);
    } else {
      growth_.missed(now(), sought.host);
      recovery_.pool().lose(sought.host);
      log_->info("host {} cannot be used: {}", sought.host, sought.problem);
    }
  }
  if (!growing_ && !paused_ && growth_.due(now())) begin_growth();
}

void Supervisor::begin_growth() {
  const auto larger = recovery_.growth(static_cast<int>(plan_.ranks.size()));
  if (!larger) return;  // they are there for the next failure
  growing_ = true;
  growth_.grown(now());
  coordinator_->send_to_all(control::CommandMessage::STOP_AND_SAVE);
  const std::string line =
      fmt::format("{}: saving at the end of this step, then going on with them", larger->reason);
  console_.line(line);
  log_->info("{}", line);
}

// Hosts that were gone again before the larger world could start: that costs a start, but is no failure of the run.
bool Supervisor::do_without(std::vector<std::string>& vanished) {
  for (const std::string& host : vanished) {
    growth_.lost(now(), host);
    recovery_.pool().lose(host);
    log_->info("host {} is gone again", host);
  }
  vanished.clear();
  recourse_ = recovery_.growth(0);
  if (!recourse_) return false;
  end_epoch();
  resume_at_ = now();
  return true;
}

// For `dslaunch ctl join`.
std::string Supervisor::join_new_hosts() {
  if (!job_.read_nodes) throw Unsupported("this run has no hosts; it was started on one machine");
  NodePool& pool = recovery_.pool();
  std::vector<std::string> added;
  for (PoolNode& node : job_.read_nodes()) {
    const std::string host = node.host;
    if (!pool.add(std::move(node))) continue;
    growth_.promised(now(), host);
    added.push_back(host);
  }
  growth_.look_now(now());
  return added.empty() ? "no new host in the hostfile; looking for those that were lost"
                       : fmt::format("looking for {}", fmt::join(added, ", "));
}

}  // namespace ds
