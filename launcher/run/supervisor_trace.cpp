// The part of the supervisor that has steps of the running job traced.
#include <spdlog/spdlog.h>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/text/amounts.h"
#include "launcher/run/supervisor.h"

namespace ds {

std::string Supervisor::begin_trace(const ControlRequest& request) {
  const int ranks = narrow<int>(epoch_->plan.ranks.size());
  const TraceStatus& begun = record_.trace.begin(request.steps, request.ranks, ranks);
  control::CommandMessage command;
  command.set_kind(control::CommandMessage::TRACE);
  command.set_trace_steps(begun.steps);
  for (const int rank : begun.ranks) command.add_trace_ranks(rank);
  epoch_->coordinator->send_to_all(command);
  return fmt::format("tracing {} of {} from the end of this step on",
                     format_count(begun.steps, "step"),
                     format_count(narrow<int64_t>(begun.ranks.size()), "rank"));
}

std::string Supervisor::stop_trace() {
  record_.trace.require_under_way();
  if (epoch_) epoch_->coordinator->send_to_all(control::CommandMessage::TRACE);  // of no steps
  return "the trace ends with this step";
}

void Supervisor::take_trace(int rank, const control::TracePart& part) {
  const auto whole = record_.trace.take(rank, part.text(), part.last());
  if (!whole) return;
  log_->info("trace {} is whole: {} bytes", record_.trace.status().number, whole->size());
  records_.replace(kTraceFile, *whole);
}

}  // namespace ds
