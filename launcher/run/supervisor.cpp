#include "launcher/run/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "core/status/error.h"
#include "core/tasks/host.h"
#include "core/values/index.h"
#include "launcher/report/status_text.h"
#include "proto/step_metrics.h"

namespace ds {
namespace {

constexpr Time kTickPeriod = std::chrono::seconds(1);

RankProgress to_progress(const control::Progress& in) {
  const control::Progress::Collective& last = in.collective();
  return {in.step(),
          in.micro_step(),
          in.phase(),
          {last.number(), last.group(), last.sequence(), last.op(), last.inside()},
          in.total()};
}

std::vector<CutLink> to_links(const control::Progress& in) {
  std::vector<CutLink> out;
  for (const control::Progress::Link& link : in.cut_links())
    out.push_back({link.peer(), link.heard(), link.what()});
  return out;
}

RunCore::Options core_options(const TrainingJob& job, const RunDirectory& directory) {
  RunCore::Options out;
  out.recovery = job.recovery;
  out.recovery.room_in = directory.path().string();
  out.nodes = job.nodes;
  out.epoch.hang = job.hang;
  out.epoch.join_timeout = job.join_timeout;
  out.newest_epoch = job.newest_epoch;
  out.keeps_in_memory = job.config.keeps_in_memory;
  out.timeout = job.timeout;
  out.time_limit = job.time_limit;
  out.limited_by = job.limited_by;
  out.growth.shortest_run = job.config.shortest_run;
  return out;
}

std::string signal_name(int signal) { return fmt::format("SIG{}", sigabbrev_np(signal)); }

}  // namespace

Supervisor::Supervisor(const TrainingJob& job, RunRecords& records, WorldStarter& starter,
                       SignalWatch& signals, Console& console)
    : job_(job),
      records_(records),
      directory_(records.directory()),
      starter_(starter),
      signals_(signals),
      console_(console),
      log_(&records.log()),
      started_(now()),
      core_(core_options(job, directory_), started_),
      authority_(job.authority),
      shown_{.policy = PrintPolicy(job.config.steps_per_print)} {
  record_.host = own_host_name();
}

Time Supervisor::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

RunRecord Supervisor::run() {
  if (job_.metrics_listen) {
    metrics_endpoint_.emplace(*job_.metrics_listen);
    console_.line(fmt::format("metrics at http://{}/metrics", *job_.metrics_listen));
  }
  carry_out_next();  // claims the first epoch
  records_.replace("config.json", job_.config.canonical_text + "\n");
  open_control_socket();
  announce_deadline();
  carry_out_all();
  while (!record_ended_) {
    wait_for_something();
    notice_own_stall();
    if (epoch_) {
      take_rank_events();
      take_ends();
    } else {
      starter_.tend();
    }
    take_signals();
    take_requests();
    take_candidates();
    take_room();
    keep_records();
    carry_out_all();
  }
  return record_;
}

// Stopped (SIGSTOP, Ctrl-Z, a debugger), starved, or on a machine that slept.
void Supervisor::notice_own_stall() {
  constexpr Time kTolerated = std::chrono::milliseconds(2500);
  const Time at = now();
  const Time gap = at - std::exchange(last_turn_, at);
  if (last_turn_ == gap || gap < kTolerated) return;  // the first turn; everyday life
  happened(run_event::StoodStill{gap});
  say(
      fmt::format("dslaunch itself stood still for {} (stopped, or its machine was busy); no rank "
                  "is blamed for that",
                  format_duration(gap)));
}

void Supervisor::say(const std::string& line) {
  console_.line(line);
  log_->info("{}", line);
}

// The lease, and what the disk does to the records.
void Supervisor::keep_records() {
  records_.keep_lease(now());
  for (const std::string& notice : records_.take_notices(now())) {
    console_.line(notice);
    log_->warn("{}", notice);
  }
  if (const std::optional<std::string> taken = records_.taken_over())
    happened(run_event::TakenOver{*taken});
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}, {records_.event_fd(), POLLIN, 0}};
  if (control_) control_->add_poll_descriptors(watched);
  if (metrics_endpoint_) metrics_endpoint_->add_poll_descriptors(watched);
  starter_.add_poll_descriptors(watched);
  if (epoch_) {
    watched.push_back({epoch_->coordinator->event_fd(), POLLIN, 0});
    epoch_->world->add_poll_descriptors(watched);
  }
  const Time next = core_.next_deadline(now());
  const Time left = std::clamp(next - now(), Time::zero(), kTickPeriod);
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(left);
  poll(watched.data(), watched.size(), static_cast<int>(timeout.count()));
}

void Supervisor::take_rank_events() {
  if (records_.steps_are_written()) epoch_->coordinator->steps_are_written();
  for (const RankEvent& event : epoch_->coordinator->take_events()) {
    if (const auto* join = std::get_if<JoinEvent>(&event.body)) {
      take_join(event, *join);
    } else if (const auto* refused = std::get_if<JoinRefused>(&event.body)) {
      core_.membership()->reported_end(event.at, event.rank,
                                       static_cast<int>(ExitCode::kClusterUnusable), Blame::kOwn,
                                       refused->reason);
    } else if (const auto* message = std::get_if<control::RankMessage>(&event.body)) {
      take_message(event, *message);
    }
  }
}

void Supervisor::take_join(const RankEvent& event, const JoinEvent& join) {
  const WorldMember member{event.rank, event.epoch, join.request.host(), join.request.pid()};
  if (const auto refusal = core_.membership()->joined(now(), member)) {
    epoch_->coordinator->refuse(join.ticket, *refusal);
    log_->warn("rank {} refused: {}", event.rank, *refusal);
    return;
  }
  epoch_->tickets[event.rank] = join.ticket;
  if (!join.request.data_endpoint().empty()) {
    epoch_->data_endpoints[event.rank] = join.request.data_endpoint();
  }
  log_->info("rank {} joined after {:.3f} s", event.rank, seconds_of(now() - epoch_->started));
}

void Supervisor::take_message(const RankEvent& event, const control::RankMessage& message) {
  Membership& membership = *core_.membership();
  switch (message.body_case()) {
    case control::RankMessage::kHeartbeat:
      membership.heartbeat(event.at, event.epoch, event.rank, to_progress(message.heartbeat()));
      membership.links_reported(event.at, event.rank, to_links(message.heartbeat()));
      if (event.rank == 0) show_phase(to_progress(message.heartbeat()));
      break;
    case control::RankMessage::kStep:
      take_step(from_proto(message.step()));
      membership.stepped(event.at, event.epoch, event.rank, message.step().step());
      break;
    case control::RankMessage::kCommit:
      take_commit(message.commit());
      break;
    case control::RankMessage::kText:
      console_.line(message.text());
      log_->info("rank {}: {}", event.rank, message.text());
      break;
    case control::RankMessage::kPlanJson:
      records_.replace("plan.json", message.plan_json());
      break;
    case control::RankMessage::kMeasured:
      nth(record_.ranks, event.rank).measured = message.measured();
      break;
    case control::RankMessage::kBadNumberJson:  // ranks say the same
      if (record_.bad_number.empty()) record_.bad_number = message.bad_number_json();
      break;
    case control::RankMessage::kGenerated:
      console_.clear_live();
      console_.result(message.generated());
      break;
    case control::RankMessage::kTrace:
      take_trace(event.rank, message.trace());
      break;
    case control::RankMessage::kFinal: {
      const control::FinalReport& final = message.final();
      const bool echo = final.origin() == control::FinalReport::PEER;
      membership.reported_end(event.at, event.rank, final.exit_code(),
                              echo ? Blame::kPeer : Blame::kOwn, final.error());
      log_->info("rank {} ends with code {} {}", event.rank, final.exit_code(), final.error());
      break;
    }
    default:
      break;
  }
}

void Supervisor::take_step(const StepMetrics& metrics) {
  if (!record_.last_step) {
    log_->info("first step after {:.3f} s", seconds_of(now() - started_));
  }
  records_.step(metrics);
  record_.goodput.step(metrics);
  record_.last_step = metrics;
  record_.epochs.back().steps = metrics.step;
  if (metrics.values.has("validation_loss")) shown_.validated = metrics;
  happened(run_event::StepDone{});
  std::optional<Time> evaluation;
  if (const std::optional<double> took = metrics.values.find("evaluation_s")) {
    evaluation = std::chrono::duration_cast<Time>(std::chrono::duration<double>(*took));
  }
  const Time at = now();
  const std::optional<Time> left =
      shown_.pace.update(at, metrics.step, metrics.total_steps, evaluation);
  shown_.ends = left ? std::optional(at + *left) : std::nullopt;
  if (console_.live()) {
    // The last step has its line at the end.
    if (metrics.values.has("validation_loss") && metrics.step != metrics.total_steps)
      console_.line(step_line(metrics, std::nullopt));
    show_live(step_line_within(metrics, left, console_.live_columns()));
  } else if (shown_.policy.wants(now(), metrics.step, metrics.total_steps)) {
    console_.line(step_line(metrics, left));
  }
}

void Supervisor::show_phase(const RankProgress& progress) {
  if (!console_.live()) return;
  if (const auto line = phase_line(progress, record_.last_step)) show_live(*line);
}

void Supervisor::show_live(const std::string& line) {
  constexpr Time kRefresh = std::chrono::milliseconds(50);  // faster than that nobody reads
  const Time at = now();
  if (at - shown_.live_at >= kRefresh) {
    console_.set_live(line);
    shown_.live_at = at;
  }
}

void Supervisor::take_commit(const control::CommittedTag& tag) {
  record_.last_commit = tag;
  const std::chrono::duration<double> took(std::min(1e6, std::max(0.0, tag.seconds())));
  record_.goodput.committed(took.count());
  happened(run_event::TagCommitted{tag.tag(), std::chrono::duration_cast<Time>(took)});
  records_.committed(tag, core_.epoch());
  say(fmt::format("committed tag={} step={}", tag.tag(), tag.step()));
}

void Supervisor::take_ends() {
  const auto show = [this](int rank, std::string_view line) { hear(rank, line); };
  World& world = *epoch_->world;
  world.pump(show);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (const std::optional<ExitStatus> status = world.newly_ended(rank, show))
      take_end(rank, *status);
  }
}

void Supervisor::take_end(int rank, const ExitStatus& status) {
  RankRecord& record = nth(record_.ranks, rank);
  record.exit_code = status.signal == 0 ? std::optional(status.code) : std::nullopt;
  record.signal = status.signal;
  // What it said before it ended has long arrived, and must be heard first.
  take_rank_events();
  const std::string loss = epoch_->world->loss_of(rank);
  if (status.signal == SIGKILL && loss.empty() && !core_.failed()) {
    epoch_->memory_deaths[rank] = epoch_->world->memory_death_of(rank);
  }
  if (loss.empty()) {
    core_.membership()->ended(now(), rank, status.code, status.signal);
  } else {
    core_.membership()->host_lost(now(), rank, loss);
  }
  log_->info("rank {} {}", rank, loss.empty() ? describe(status) : loss);
}

void Supervisor::request_stop(const StopRequest& request, const std::string& notice) {
  happened(run_event::StopAsked{request});
  say(notice);
}

void Supervisor::take_signals() {
  while (const std::optional<int> signal = signals_.take()) {
    log_->info("signal {}", signal_name(*signal));
    const StopRequest graceful{*signal == SIGINT ? "Ctrl-C" : signal_name(*signal),
                               ExitCode::kRequeue, 128 + *signal, kSaveGrace};
    if (*signal == SIGUSR2) {
      if (epoch_) epoch_->coordinator->send_to_all(control::CommandMessage::DUMP);
      console_.line(epoch_ ? core_.membership()->explain()
                           : "no rank is there between two generations");
    } else if (job_.generation) {  // there is nothing to save
      happened(run_event::KillAsked{128 + *signal, graceful.why});
    } else if (*signal == SIGUSR1) {
      StopRequest unhurried = graceful;
      unhurried.grace.reset();  // the scheduler that sends it knows how much time is left
      request_stop(unhurried, "USR1: saving at the end of this step, then exit 75");
    } else if (*signal == SIGINT && ++interrupts_ > 1) {
      happened(run_event::KillAsked{128 + SIGINT, "second Ctrl-C"});
    } else {
      request_stop(graceful, *signal == SIGINT
                                 ? "stopping: saving at the end of this step; Ctrl-C again kills "
                                   "everything at once"
                                 : "stopping: saving at the end of this step");
    }
  }
}

void Supervisor::carry_out_all() {
  take_claim();
  while (carry_out_next()) {
  }
}

// What an action asks for is answered while it is carried out, so that the next ones are decided by
// that.
bool Supervisor::carry_out_next() {
  const std::vector<RunAction> actions = core_.ready(now());
  for (const RunAction& action : actions)
    std::visit([this](const auto& body) { execute(body); }, action);
  return !actions.empty();
}

void Supervisor::execute(const run_action::Tell& action) {
  using To = run_action::Tell::To;
  if (action.to != To::kLog) console_.line(action.line);
  if (action.to == To::kUserAndWarning) {
    log_->warn("{}", action.line);
  } else if (action.to != To::kUser) {
    log_->info("{}", action.line);
  }
}

void Supervisor::execute(const run_action::SaveAndEnd& /*action*/) {
  epoch_->coordinator->send_to_all(control::CommandMessage::STOP_AND_SAVE);
}

void Supervisor::execute(const run_action::KillRanks& /*action*/) { epoch_->world->kill_all(); }

void Supervisor::execute(const run_action::AnnounceNext& action) {
  record_.restarts = core_.restarts();
  say(action.line);
  const std::string details =
      record_.root_cause ? death_details(*record_.root_cause, record_.circumstances) : "";
  if (!details.empty()) {
    say(details.substr(0, details.size() - 1));
  }
}

void Supervisor::execute(const run_action::FinishRun& action) {
  console_.clear_live();
  if (console_.live() && record_.last_step)
    console_.closing_line(last_line(*record_.last_step, shown_.validated));
  record_.exit_code = action.end.exit_code;
  if (EndWatch* const watch = signals_.end_watch()) watch->ends_with(record_.exit_code);
  record_.reason = action.end.reason;
  record_.root_cause = action.end.root_cause;
  record_.elapsed = now() - started_;
  record_ended_ = true;
  const RunRecords::Finished finished = records_.finish({.report = report_json(record_),
                                                         .textfile = status_prometheus(status()),
                                                         .exit_code = record_.exit_code});
  for (const std::string& problem : finished.problems) console_.line(problem);
  record_.written = finished.written;
}

}  // namespace ds
