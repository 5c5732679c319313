// Hosts that come back or are added while a run goes on, as RunCore wants them looked for.
#include <spdlog/spdlog.h>

#include "core/status/error.h"
#include "launcher/run/supervisor.h"

namespace ds {

void Supervisor::execute(const run_action::SeekHost& action) { starter_.seek(action.host); }

void Supervisor::take_candidates() {
  if (!core_.looks_for_hosts()) return;
  for (const CandidateHost& candidate : starter_.take_candidates())
    happened(run_event::CandidateAnswered{candidate.host, candidate.problem});
}

void Supervisor::take_room() {
  if (!core_.awaits_room()) return;
  if (const std::optional<int64_t> bytes = records_.room_seen()) {
    happened(run_event::RoomSeen{*bytes});
  }
  records_.look_for_room();
}

void Supervisor::execute(const run_action::TryLinks& action) {
  const std::string problem = starter_.cut_between(action.host, action.ranks);
  last_turn_ = now();  // which has taken some seconds
  happened(run_event::LinksTried{action.host, problem});
}

// For `dslaunch ctl join`.
std::string Supervisor::join_new_hosts() {
  if (!job_.read_nodes) throw Unsupported("this run has no hosts; it was started on one machine");
  const std::vector<std::string> added = core_.join(now(), job_.read_nodes());
  return added.empty() ? "no new host in the hostfile; looking for those that were lost"
                       : fmt::format("looking for {}", fmt::join(added, ", "));
}

}  // namespace ds
