// Hosts that come back or are added while a run goes on: looking for them, and making room for a
// larger world at the next step edge. What is tried when is launcher/decide/growth.h.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "core/error.h"
#include "launcher/run/supervisor.h"

namespace ds {
namespace {

constexpr Time kLookPeriod = std::chrono::seconds(2);

}  // namespace

// While an epoch runs, when its hosts are settled and no other one is in use, and while hosts are
// waited for.
void Supervisor::look_for_hosts() {
  const bool runs = world_ && membership_->running();
  if (stop_ || (!runs && !give_up_at_)) return;
  if (give_up_at_ &&
      now() >= look_again_at_) {  // nothing else is going on that many tries would disturb
    growth_.look_now(now());
    look_again_at_ = now() + kLookPeriod;
  }
  for (const std::string& host : growth_.to_try(now())) {
    if (runs && cut_off_.contains(host)) {
      growth_.missed(now(), host);  // that its agent answers says nothing of its way to the others
      continue;
    }
    log_->info("looking for host {}", host);
    starter_.seek(host);
  }
  for (SoughtHost& sought : starter_.take_sought()) {
    if (sought.problem.empty() && cut_off_.contains(sought.host))
      sought.problem = look_at_links(sought.host);
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
  if (runs && !growing_ && !paused_ && growth_.due(now())) begin_growth();
}

// Whether a host that was cut off from others reaches them again. Nothing runs meanwhile that this
// could disturb.
std::string Supervisor::look_at_links(const std::string& host) {
  if (world_) return "it was cut off from other hosts, and nobody has looked since";
  std::string problem = starter_.cut_between(host, plan_.ranks);
  if (problem.empty()) cut_off_.erase(host);
  last_turn_ = now();  // which has taken some seconds
  return problem;
}

// Too few hosts are left for any world.
bool Supervisor::leave_hosts_missing() {
  const bool over = now() >= *give_up_at_;
  std::optional<std::vector<RankPlacement>> world = recovery_.pool().next_world();
  if (!stop_ && !world && !over) return true;
  give_up_at_.reset();
  if (!stop_ && !world) {
    const Recourse end = recovery_.nobody_came(*recourse_);
    console_.line(end.reason);
    return finish_between(end.reason, end.exit_code);
  }
  if (world) {
    const std::string line = fmt::format("hosts are back: epoch {} with {}", plan_.epoch + 1,
                                         format_count(static_cast<int64_t>(world->size()), "rank"));
    say(line);
    recourse_->world = *std::move(world);
  }
  resume_at_ = now();
  return true;
}

void Supervisor::begin_growth() {
  const auto larger = recovery_.growth(static_cast<int>(plan_.ranks.size()));
  if (!larger) return;  // they are there for the next failure
  growing_ = true;
  growth_.grown(now());
  coordinator_->send_to_all(control::CommandMessage::STOP_AND_SAVE);
  const std::string line =
      fmt::format("{}: saving at the end of this step, then going on with them", larger->reason);
  say(line);
}

// Hosts that were gone again before the larger world could start: that costs a start, but is no
// failure of the run.
bool Supervisor::do_without(std::vector<std::string>& vanished) {
  for (const std::string& host : vanished) {
    growth_.lost(now(), host);
    recovery_.pool().lose(host);
    log_->info("host {} cannot be used after all", host);
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
  cut_off_.clear();  // whoever says so has repaired the network, or will see it fail again
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
