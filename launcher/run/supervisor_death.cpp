// What a run learns about ranks that die: their last words and what the kernel says.
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/run/supervisor.h"

namespace ds {

void Supervisor::hear(int rank, std::string_view line) {
  epoch_->last_output[rank].add(line);
  if (!parse_signal_report(line)) console_.rank_output(rank, line);
}

// Completes the cause by what is known beyond its status.
void Supervisor::execute(const run_action::LearnCause& action) {
  run_event::CauseLearned answer{action.cause, {}};
  Failure& cause = answer.cause;
  DeathCircumstances& out = record_.circumstances;
  out = {};
  if (epoch_) {
    if (cause.rank >= 0 && cause.rank < epoch_->world->size()) {
      out.host = nth(epoch_->plan.ranks, cause.rank).host;
      out.pid = epoch_->world->pid_of(cause.rank);
      out.gpu = epoch_->world->gpu_of(cause.rank);
      out.progress = nth(core_.membership()->ranks(now()), cause.rank).progress;
    }
    if (const auto words = epoch_->last_output.find(cause.rank); words != epoch_->last_output.end())
      out.words = words->second;
    if (const auto death = epoch_->memory_deaths.find(cause.rank);
        death != epoch_->memory_deaths.end()) {
      out.memory = death->second;
    }
    answer.lost_hosts = epoch_->world->lost_hosts();
  }
  if (const std::string phrase = death_phrase(cause, out);
      !phrase.empty() && cause.detail.empty()) {
    cause.detail = phrase;
  }
  happened(answer);
}

void Supervisor::execute(const run_action::ReportFailure& action) {
  const std::optional<RestartDecision>& restart_decision = action.restart_decision;
  record_.root_cause = action.decision.root_cause;
  record_.reason = restart_decision ? restart_decision->reason : action.decision.reason;
  record_.exit_code = restart_decision ? restart_decision->exit_code : action.decision.exit_code;
  if (record_.root_cause) record_.epochs.back().reason = describe(*record_.root_cause);
  console_.clear_live();
  console_.raw_error(failure_line(record_, restart_decision && restart_decision->restart
                                               ? FaultAction::kRestart
                                               : FaultAction::kStop));
}

}  // namespace ds
