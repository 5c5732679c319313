#include "rankd/control/control_messages.h"

namespace ds {
namespace {

ResumeMode to_resume(control::JobPlan::Resume resume) {
  switch (resume) {
    case control::JobPlan::REQUIRED:
      return ResumeMode::kRequired;
    case control::JobPlan::NEVER:
      return ResumeMode::kNever;
    default:
      return ResumeMode::kAuto;
  }
}

Device to_device(const control::Device& in) {
  return in.kind() == control::Device::CUDA ? Device::cuda(in.index()) : Device::cpu();
}

}  // namespace

JobPlan to_job_plan(const control::JobPlan& in) {
  JobPlan plan;
  plan.rank = in.rank();
  plan.world_size = in.world_size();
  plan.local_rank = in.local_rank();
  plan.local_size = in.local_size();
  plan.epoch = in.epoch();
  plan.claim = in.claim();
  plan.threads = in.threads();
  plan.config_text = in.config_text();
  plan.config_dir = in.config_dir();
  plan.run_dir = in.run_dir();
  plan.resume = to_resume(in.resume());
  plan.resume_tag = in.resume_tag();
  plan.oldest_tag_epoch = in.oldest_tag_epoch();
  plan.committed_step = in.committed_step();
  plan.committed_by = in.committed_by();
  plan.progress = in.progress();
  plan.accept_changes = in.accept_changes();
  plan.told_step = in.told_step();
  plan.audit_samples = in.audit_samples();
  if (in.has_generation()) plan.generation = in.generation().SerializeAsString();
  plan.device = to_device(in.device());
  plan.backend = in.backend();
  plan.shm_name = in.shm_name();
  plan.tcp.endpoints.assign(in.data_endpoints().begin(), in.data_endpoints().end());
  plan.tcp.secret = in.data_secret();
  return plan;
}

control::FinalReport::Origin to_origin(ErrorOrigin origin) {
  switch (origin) {
    case ErrorOrigin::kOwn:
      return control::FinalReport::OWN;
    case ErrorOrigin::kPeer:
      return control::FinalReport::PEER;
    case ErrorOrigin::kNone:
      break;
  }
  return control::FinalReport::NONE;
}

std::optional<Command> to_command(control::CommandMessage::Kind kind) {
  switch (kind) {
    case control::CommandMessage::STOP_AND_SAVE:
      return Command::kStopAndSave;
    case control::CommandMessage::SAVE_NOW:
      return Command::kSaveNow;
    case control::CommandMessage::PAUSE:
      return Command::kPause;
    case control::CommandMessage::RESUME:
      return Command::kResume;
    case control::CommandMessage::TRACE:
      return Command::kTrace;
    default:
      return std::nullopt;
  }
}

TraceOrder to_trace_order(const control::CommandMessage& in) {
  return {.steps = in.trace_steps(), .ranks = {in.trace_ranks().begin(), in.trace_ranks().end()}};
}

}  // namespace ds
