// How an epoch of a run begins and ends: its number, and what its ranks are told.
#include <spdlog/spdlog.h>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/agents/epoch_plan.h"
#include "launcher/process/credentials.h"
#include "launcher/run/supervisor.h"

namespace ds {
namespace {

constexpr size_t kDataSecretBytes = 32;  // by which the ranks know each other

control::JobPlan::Resume to_proto(ResumeMode mode) {
  switch (mode) {
    case ResumeMode::kRequired:
      return control::JobPlan::REQUIRED;
    case ResumeMode::kNever:
      return control::JobPlan::NEVER;
    case ResumeMode::kAuto:
      break;
  }
  return control::JobPlan::AUTO;
}

control::Device to_proto(const Device& device) {
  control::Device out;
  out.set_kind(device.kind == Device::Kind::kCuda ? control::Device::CUDA : control::Device::CPU);
  out.set_index(device.index);
  return out;
}

}  // namespace

void Supervisor::execute(const run_action::ClaimEpoch& action) {
  record_.root_cause.reset();
  record_.circumstances = {};
  prepared_ = make_epoch_plan(action.ranks);
  prepared_->data_plane = job_.data_plane;
  prepared_->join_timeout = job_.join_timeout;
  records_.claim_epoch(action.at_least, prepared_->claim,
                       action.first ? RunRecords::OnError::kTell : RunRecords::OnError::kRetry);
}

// Takes as long as the disk takes. Only the first claim can fail: the others are tried again.
void Supervisor::take_claim() {
  if (!core_.claims() || core_.stopping()) return;
  const std::optional<RunRecords::Claim> claim = records_.claimed();
  if (!claim) return;
  if (!claim->error.empty()) throw IoError(claim->error);
  happened(run_event::EpochClaimed{claim->epoch});
}

void Supervisor::execute(const run_action::StartEpoch& action) {
  prepared_->epoch = action.epoch;
  if (action.first) record_nothing_committed();
  try {
    start_epoch();
  } catch (const Error& error) {
    if (action.first) throw;
    run_event::StartFailed failed{error.what(), static_cast<int>(error.exit_code()), {}};
    if (const auto* unusable = dynamic_cast<const HostsUnusable*>(&error))
      failed.unusable = unusable->hosts();
    happened(failed);
  }
}

// Before the first epoch can commit. A launch that begins anew forgets what was committed before
// it, and so do later ones, until there is a checkpoint of the new training.
void Supervisor::record_nothing_committed() {
  const bool begins = job_.resume == ResumeMode::kNever;
  if (!begins && (job_.past.committed_step > 0 || !job_.past.trace.empty())) return;
  records_.replace("committed.json",
                   nothing_committed_text(begins ? core_.first_epoch() : job_.past.begun_anew));
}

void Supervisor::start_epoch() {
  WorldPlan plan = *std::exchange(prepared_, std::nullopt);
  record_.epochs.push_back({.epoch = plan.epoch, .ranks = plan.ranks.size()});
  record_.ranks.assign(plan.ranks.size(), {});
  epoch_.emplace(std::move(plan),
                 EpochSetting{.starter = starter_,
                              .authority = authority_,
                              .log = *log_,
                              .config_digest = job_.config.digest,
                              .coordinator_port = job_.coordinator_port,
                              .longest_life = job_.timeout,
                              .end_watch = signals_.end_watch()},
                 now());
  if (core_.paused()) epoch_->coordinator->send_to_all(control::CommandMessage::PAUSE);
  const World& world = *epoch_->world;
  for (int rank = 0; rank < world.size(); ++rank) {
    log_->info("generation {}: rank {} is {}", epoch_->plan.epoch, rank, world.describe(rank));
  }
  console_.set_live(fmt::format("starting {} ...", format_count(world.size(), "rank")));
}

void Supervisor::execute(const run_action::EndEpoch& action) {
  EndWatch* const watch = signals_.end_watch();
  if (watch != nullptr && action.exit_code) watch->ends_with(*action.exit_code);
  epoch_.reset();
  record_.trace.epoch_ended(record_.reason.empty() ? "the run ended before all of it had come"
                                                   : record_.reason);
}

void Supervisor::execute(const run_action::AdmitRanks& /*action*/) {
  control::JobPlan plan = job_plan();
  if (!epoch_->data_endpoints.empty()) {  // a rank that gave none gets an empty one, and says so
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      plan.add_data_endpoints(epoch_->data_endpoints[rank]);
    }
    plan.set_data_secret(random_bytes(kDataSecretBytes));
  }
  for (const auto& [rank, ticket] : epoch_->tickets) {
    plan.set_rank(rank);
    const RankPlacement& placement = nth(epoch_->plan.ranks, rank);
    plan.set_local_rank(placement.local_rank);
    plan.set_local_size(placement.local_size);
    epoch_->coordinator->admit(ticket, plan);
  }
  epoch_->tickets.clear();
  epoch_->data_endpoints.clear();
}

// What all ranks of the epoch are told.
control::JobPlan Supervisor::job_plan() const {
  control::JobPlan plan;
  const WorldPlan& world = epoch_->plan;
  plan.set_world_size(narrow<int>(world.ranks.size()));
  plan.set_epoch(world.epoch);
  plan.set_claim(world.claim);
  plan.set_threads(job_.shape.threads);
  *plan.mutable_device() = to_proto(job_.device);
  plan.set_config_text(job_.config.canonical_text);
  plan.set_config_dir(job_.config.directory.string());
  plan.set_run_dir(directory_.path().string());
  plan.set_resume(resume_mode());
  plan.set_audit_samples(job_.audit_samples);
  plan.set_accept_changes(job_.accept_changes);
  if (job_.generation) *plan.mutable_generation() = *job_.generation;
  const bool begins = job_.resume == ResumeMode::kNever;  // what lies there is of another training
  plan.set_told_step(record_.last_step ? record_.last_step->step
                     : begins          ? 0
                                       : job_.past.metrics_step);
  report_progress(plan);
  plan.set_resume_tag(job_.resume_tag);
  // Restarts go on from what this launch has made.
  plan.set_oldest_tag_epoch(begins || !job_.resume_tag.empty() ? core_.first_epoch()
                                                               : job_.past.begun_anew);
  plan.set_backend(std::string(name_of(job_.data_plane)));
  plan.set_shm_name(world.shm_name);
  return plan;
}

// What was committed once must not be lost in silence, whoever committed it. Steps that nobody
// saved may be lost.
void Supervisor::report_progress(control::JobPlan& plan) const {
  if (record_.last_commit) {
    plan.set_committed_step(record_.last_commit->step());
    plan.set_committed_by(fmt::format("this run has saved {}", record_.last_commit->tag()));
  } else if (job_.resume != ResumeMode::kNever && job_.resume_tag.empty()) {
    plan.set_committed_step(job_.past.committed_step);
    plan.set_committed_by(job_.past.committed_by);
    plan.set_progress(job_.past.trace);
  }
}

// A restart of a run that began anew takes what there is: it may have been ended before its first
// save.
control::JobPlan::Resume Supervisor::resume_mode() const {
  const bool begins = job_.resume == ResumeMode::kNever && core_.epoch() != core_.first_epoch();
  return begins ? control::JobPlan::AUTO : to_proto(job_.resume);
}

}  // namespace ds
