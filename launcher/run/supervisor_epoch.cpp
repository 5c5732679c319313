// How an epoch of a run begins and ends: its number, its coordinator, its processes, and what they
// are told.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "core/error.h"
#include "core/secrecy.h"
#include "launcher/agents/epoch_plan.h"
#include "launcher/process/credentials.h"
#include "launcher/run/supervisor.h"
#include "proto/build_info.h"

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

std::vector<std::string> hosts_by_rank(const std::vector<RankPlacement>& ranks) {
  std::vector<std::string> out;
  for (const RankPlacement& rank : ranks) out.push_back(rank.host);
  return out;
}

}  // namespace

void Supervisor::prepare_epoch(std::vector<RankPlacement> ranks) {
  prepared_ = make_epoch_plan(std::move(ranks));
  const bool first = first_epoch_ == 0;
  records_.claim_epoch(1 + std::max(first ? 0 : plan_.epoch, job_.newest_epoch), prepared_->claim,
                       first ? RunRecords::OnError::kTell : RunRecords::OnError::kRetry);
}

void Supervisor::start_epoch() {
  epoch_started_ = now();
  if (deadline_) deadline_->restarted();
  committed_ = false;
  growing_ = false;
  record_.epochs.push_back({.epoch = plan_.epoch, .ranks = plan_.ranks.size()});
  record_.ranks.assign(plan_.ranks.size(), {});
  last_words_.clear();
  memory_deaths_.clear();
  membership_.emplace(Membership::Options{.world_size = static_cast<int>(plan_.ranks.size()),
                                          .epoch = plan_.epoch,
                                          .hang = job_.hang,
                                          .hosts = hosts_by_rank(plan_.ranks)},
                      epoch_started_);
  open_coordinator();
  world_ = starter_.start(plan_);
  plan_.forget_credentials();
  for (Fd& connection : world_->take_connections()) {
    coordinator_->adopt(std::move(connection));
  }
  if (paused_) coordinator_->send_to_all(control::CommandMessage::PAUSE);
  for (int rank = 0; rank < world_->size(); ++rank) {
    log_->info("epoch {}: rank {} is {}", plan_.epoch, rank, world_->describe(rank));
  }
  console_.set_live(fmt::format("starting {} ...", format_count(world_->size(), "rank")));
}

// Before the ranks, which are told where it listens, if it has to.
void Supervisor::open_coordinator() {
  Coordinator::Options options{plan_.epoch, plan_.tokens, build_id(), job_.config.digest};
  options.addresses = starter_.reach(plan_.ranks);
  if (!options.addresses.empty()) {
    if (!authority_) {
      const auto limit =
          std::chrono::ceil<std::chrono::seconds>(job_.timeout.value_or(JobAuthority::kNoLimit));
      authority_.emplace(std::chrono::system_clock::now(), limit);
    }
    options.port = job_.coordinator_port;
    options.authority = &*authority_;
  }
  coordinator_.emplace(options);
  wipe(options.tokens);
  plan_.coordinator_endpoints = coordinator_->endpoints();
  plan_.coordinator_name = coordinator_->name();
  for (int rank = 0; authority_ && rank < static_cast<int>(plan_.ranks.size()); ++rank) {
    const TlsIdentity identity = authority_->certify_rank(plan_.epoch, rank);
    plan_.credentials.push_back(
        {authority_->certificate(), identity.certificate, identity.private_key});
  }
}

// The coordinator goes with its epoch: what a late process of it still says, nobody hears.
void Supervisor::end_epoch() {
  world_.reset();  // kills what is left
  if (coordinator_ && coordinator_->strangers_turned_away() > 0) {
    log_->warn("epoch {}: turned away {} connections that were of no rank", plan_.epoch,
               coordinator_->strangers_turned_away());
  }
  coordinator_.reset();
  tickets_.clear();
  data_endpoints_.clear();
  remove_shared_memory(plan_.rendezvous);
}

// Once its number is claimed, which takes as long as the disk takes.
bool Supervisor::start_prepared() {
  if (stop_) return end_between();
  const std::optional<RunRecords::Claim> claim = records_.claimed();
  if (!claim) return true;
  const bool first = first_epoch_ == 0;
  try {
    if (!claim->error.empty()) throw IoError(claim->error);
    plan_ = *std::exchange(prepared_, std::nullopt);
    plan_.epoch = claim->epoch;
    if (first) first_epoch_ = plan_.epoch;
    start_epoch();
    return true;
  } catch (const Error& error) {
    if (first) throw;
    return give_up_start(error);
  }
}

// A failure like any other: hosts may be gone by now.
bool Supervisor::give_up_start(const Error& error) {
  Decision failed;
  failed.kind = Decision::Kind::kStopAll;
  failed.epoch = plan_.epoch;
  failed.reason = error.what();
  failed.root_cause.emplace().kind = Failure::Kind::kNeverJoined;
  failed.root_cause->detail = error.what();
  failed.exit_code = static_cast<int>(error.exit_code());
  if (const auto* unusable = dynamic_cast<const HostsUnusable*>(&error)) {
    unreachable_ = unusable->hosts();
  }
  if (prepared_grows_ && !unreachable_.empty()) {
    console_.line(failed.reason);
    log_->warn("{}", failed.reason);
    if (do_without(unreachable_)) return true;
  }
  judge(failed);
  return after_epoch(failed);
}

void Supervisor::admit_all() {
  control::JobPlan plan;
  plan.set_world_size(static_cast<int>(plan_.ranks.size()));
  plan.set_epoch(plan_.epoch);
  plan.set_claim(plan_.claim);
  plan.set_threads(job_.shape.threads);
  plan.set_config_text(job_.config.canonical_text);
  plan.set_config_dir(job_.config.directory.string());
  plan.set_run_dir(directory_.path().string());
  plan.set_resume(resume_mode());
  plan.set_audit_samples(job_.audit_samples);
  plan.set_accept_changes(job_.accept_changes);
  const bool begins = job_.resume == ResumeMode::kNever;  // what lies there is of another training
  plan.set_told_step(record_.last_step ? record_.last_step->step()
                     : begins          ? 0
                                       : job_.past.metrics_step);
  tell_progress(plan);
  plan.set_oldest_tag_epoch(begins ? first_epoch_ : 0);
  plan.set_rendezvous(plan_.rendezvous);
  if (!data_endpoints_.empty()) {  // a rank that gave none gets an empty one, and says so
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      plan.add_data_endpoints(data_endpoints_[rank]);
    }
    plan.set_data_secret(random_bytes(kDataSecretBytes));
  }
  for (const auto& [rank, ticket] : tickets_) {
    plan.set_rank(rank);
    const RankPlacement& placement = plan_.ranks[static_cast<size_t>(rank)];
    plan.set_local_rank(placement.local_rank);
    plan.set_local_size(placement.local_size);
    coordinator_->admit(ticket, plan);
  }
  tickets_.clear();
  data_endpoints_.clear();
}

// What was committed once must not be lost in silence, whoever committed it. Steps that nobody
// saved may be lost.
void Supervisor::tell_progress(control::JobPlan& plan) const {
  if (record_.last_commit) {
    plan.set_committed_step(record_.last_commit->step());
    plan.set_committed_by(fmt::format("this run has saved {}", record_.last_commit->tag()));
  } else if (job_.resume != ResumeMode::kNever) {
    plan.set_committed_step(job_.past.committed_step);
    plan.set_committed_by(job_.past.committed_by);
    plan.set_progress(job_.past.trace);
  }
}

// A restart of a run that began anew takes what there is: it may have been ended before its first
// save.
control::JobPlan::Resume Supervisor::resume_mode() const {
  const bool begins = job_.resume == ResumeMode::kNever && plan_.epoch != first_epoch_;
  return begins ? control::JobPlan::AUTO : to_proto(job_.resume);
}

}  // namespace ds
