#include "launcher/run/supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/host.h"

namespace ds {
namespace {

constexpr Time kTickPeriod = std::chrono::seconds(1);
constexpr Time kGrace = std::chrono::seconds(30);  // to save after TERM, Ctrl-C or --timeout

RankProgress to_progress(const control::Progress& in) {
  const control::Progress::Collective& last = in.collective();
  return {in.step(),
          in.micro_step(),
          in.phase(),
          {last.number(), last.group(), last.sequence(), last.op(), last.inside()}};
}

std::vector<CutLink> to_links(const control::Progress& in) {
  std::vector<CutLink> out;
  for (const control::Progress::Link& link : in.cut_links())
    out.push_back({link.peer(), link.heard(), link.what()});
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
      recovery_(job.recovery, NodePool(job.nodes)),
      print_policy_(job.config.steps_per_print) {
  record_.host = own_host_name();
}

Supervisor::~Supervisor() { end_epoch(); }

Time Supervisor::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

RunRecord Supervisor::run() {
  if (job_.metrics_listen) {
    metrics_endpoint_.emplace(*job_.metrics_listen);
    console_.line(fmt::format("metrics at http://{}/metrics", *job_.metrics_listen));
  }
  prepare_epoch(recovery_.first_world());
  records_.replace("config.json", job_.config.canonical_text + "\n");
  const bool begins = job_.resume == ResumeMode::kNever;
  if (begins || (job_.past.committed_step == 0 && job_.past.trace.empty())) {
    records_.replace("committed.json", committed_text("", 0, 0));
  }
  open_control_socket();
  announce_deadline();
  while (decide()) {
    wait_for_something();
    notice_own_stall();
    if (world_) {
      take_rank_events();
      take_ends();
    } else {
      starter_.tend();
    }
    take_signals();
    take_requests();
    look_for_hosts();
    check_timeout();
    check_deadline();
    keep_records();
  }
  return record_;
}

// Stopped (SIGSTOP, Ctrl-Z, a debugger), starved, or on a machine that slept.
void Supervisor::notice_own_stall() {
  constexpr Time kTolerated = std::chrono::milliseconds(2500);
  const Time at = now();
  const Time gap = at - std::exchange(last_turn_, at);
  if (last_turn_ == gap || gap < kTolerated) return;  // the first turn; everyday life
  stall_ = gap;
  stalled_at_ = at;
  say(
      fmt::format("dslaunch itself stood still for {} (stopped, or its machine was busy); no rank "
                  "is blamed for that",
                  format_duration(gap)));
}

bool Supervisor::was_given_up() const {
  constexpr Time kAgentsWait =
      std::chrono::seconds(11);  // 12 s since the last beat that they heard
  constexpr Time kSeenSince = std::chrono::seconds(10);
  const bool by_agents = !plan_.ranks.empty() && !plan_.ranks.front().host.empty();
  return by_agents && stall_ >= kAgentsWait && now() - stalled_at_ < kSeenSince;
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
  if (const std::optional<std::string> taken = records_.taken_over()) {
    taken_over_ = *taken;
    if (world_) membership_->kill_requested(now(), static_cast<int>(ExitCode::kRequeue), *taken);
  }
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}, {records_.event_fd(), POLLIN, 0}};
  if (control_) control_->add_poll_descriptors(watched);
  if (metrics_endpoint_) metrics_endpoint_->add_poll_descriptors(watched);
  starter_.add_poll_descriptors(watched);
  Time next = resume_at_.value_or(Time::max());
  if (world_) {
    watched.push_back({coordinator_->event_fd(), POLLIN, 0});
    world_->add_poll_descriptors(watched);
    next = membership_->next_deadline();
    // What is due already waits for something else: room in the world, or the end of a pause.
    if (const Time growth = growth_.next_deadline(); growth > now()) next = std::min(next, growth);
  }
  const Time left = std::clamp(next - now(), Time::zero(), kTickPeriod);
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(left);
  poll(watched.data(), watched.size(), static_cast<int>(timeout.count()));
}

void Supervisor::take_rank_events() {
  if (records_.steps_are_written()) coordinator_->steps_are_written();
  for (const RankEvent& event : coordinator_->take_events()) {
    if (const auto* join = std::get_if<JoinEvent>(&event.body)) {
      take_join(event, *join);
    } else if (const auto* refused = std::get_if<JoinRefused>(&event.body)) {
      membership_->reported_end(event.at, event.rank, static_cast<int>(ExitCode::kClusterUnusable),
                                Blame::kOwn, refused->reason);
    } else if (const auto* message = std::get_if<control::RankMessage>(&event.body)) {
      take_message(event, *message);
    }
  }
}

void Supervisor::take_join(const RankEvent& event, const JoinEvent& join) {
  const WorldMember member{event.rank, event.epoch, join.request.host(), join.request.pid()};
  if (const auto refusal = membership_->joined(now(), member)) {
    coordinator_->refuse(join.ticket, *refusal);
    log_->warn("rank {} refused: {}", event.rank, *refusal);
    return;
  }
  tickets_[event.rank] = join.ticket;
  if (!join.request.data_endpoint().empty()) {
    data_endpoints_[event.rank] = join.request.data_endpoint();
  }
  log_->info("rank {} joined after {:.3f} s", event.rank,
             std::chrono::duration<double>(now() - epoch_started_).count());
}

void Supervisor::take_message(const RankEvent& event, const control::RankMessage& message) {
  RankProgress progress;
  switch (message.body_case()) {
    case control::RankMessage::kHeartbeat:
      progress = to_progress(message.heartbeat());
      membership_->heartbeat(event.at, event.epoch, event.rank, progress);
      membership_->links_reported(event.at, event.rank, to_links(message.heartbeat()));
      break;
    case control::RankMessage::kStep:
      take_step(message.step());
      membership_->stepped(event.at, event.epoch, event.rank, message.step().step());
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
      record_.ranks[static_cast<size_t>(event.rank)].measured = message.measured();
      break;
    case control::RankMessage::kFinal: {
      const control::FinalReport& final = message.final();
      const bool echo = final.origin() == control::FinalReport::PEER;
      membership_->reported_end(event.at, event.rank, final.exit_code(),
                                echo ? Blame::kPeer : Blame::kOwn, final.error());
      log_->info("rank {} ends with code {} {}", event.rank, final.exit_code(), final.error());
      break;
    }
    default:
      break;
  }
}

void Supervisor::take_step(const control::StepMetrics& metrics) {
  if (!record_.last_step) {
    log_->info("first step after {:.3f} s",
               std::chrono::duration<double>(now() - started_).count());
  }
  records_.step(metrics);
  record_.last_step = metrics;
  if (metrics.has_validation_loss()) validated_ = metrics;
  if (deadline_) deadline_->stepped(now());
  left_ = pace_.update(now(), metrics.step(), metrics.total_steps());
  const std::string line = step_line(metrics, left_);
  if (console_.live()) {
    show_live(line);
  } else if (print_policy_.wants(now(), metrics.step(), metrics.total_steps())) {
    console_.line(line);
  }
}

void Supervisor::show_live(const std::string& line) {
  constexpr Time kRefresh = std::chrono::milliseconds(50);  // faster than that nobody reads
  const Time at = now();
  if (at - live_at_ >= kRefresh) {
    console_.set_live(line);
    live_at_ = at;
  }
}

void Supervisor::take_commit(const control::CommittedTag& tag) {
  record_.last_commit = tag;
  if (deadline_) {
    const std::chrono::duration<double> took(std::min(1e6, std::max(0.0, tag.seconds())));
    deadline_->saved(now(), std::chrono::duration_cast<Time>(took));
  }
  committed_ = true;
  records_.committed(tag, plan_.epoch);
  say(fmt::format("committed tag={} step={}", tag.tag(), tag.step()));
}

void Supervisor::take_ends() {
  const auto show = [this](int rank, std::string_view line) { hear(rank, line); };
  world_->pump(show);
  for (int rank = 0; rank < world_->size(); ++rank) {
    if (const std::optional<ExitStatus> status = world_->newly_ended(rank, show)) {
      RankRecord& record = record_.ranks[static_cast<size_t>(rank)];
      record.exit_code = status->signal == 0 ? std::optional(status->code) : std::nullopt;
      record.signal = status->signal;
      // What it said before it ended has long arrived, and must be heard first.
      take_rank_events();
      const std::string loss = world_->loss_of(rank);
      if (status->signal == SIGKILL && loss.empty() && !recourse_) {
        memory_deaths_[rank] = world_->memory_death_of(rank);
      }
      if (loss.empty()) {
        membership_->ended(now(), rank, status->code, status->signal);
      } else {
        membership_->host_lost(now(), rank, loss);
      }
      log_->info("rank {} {}", rank, loss.empty() ? describe(*status) : loss);
    }
  }
}

void Supervisor::request_stop(const StopRequest& request, const std::string& notice) {
  stop_ = stop_.value_or(request);
  if (world_) {
    membership_->stop_requested(now(), request);
    coordinator_->send_to_all(control::CommandMessage::STOP_AND_SAVE);
  }
  say(notice);
}

void Supervisor::take_signals() {
  while (const std::optional<int> signal = signals_.take()) {
    log_->info("signal {}", signal_name(*signal));
    const StopRequest graceful{*signal == SIGINT ? "Ctrl-C" : signal_name(*signal),
                               ExitCode::kRequeue, 128 + *signal, kGrace};
    if (*signal == SIGUSR2) {
      if (world_) coordinator_->send_to_all(control::CommandMessage::DUMP);
      console_.line(world_ ? membership_->explain() : "no rank is there between two epochs");
    } else if (*signal == SIGUSR1) {
      StopRequest unhurried = graceful;
      unhurried.grace.reset();  // the scheduler that sends it knows how much time is left
      request_stop(unhurried, "USR1: saving at the end of this step, then exit 75");
    } else if (*signal == SIGINT && ++interrupts_ > 1) {
      membership_->kill_requested(now(), 128 + SIGINT, "second Ctrl-C");
    } else {
      request_stop(graceful, *signal == SIGINT
                                 ? "stopping: saving at the end of this step; Ctrl-C again kills "
                                   "everything at once"
                                 : "stopping: saving at the end of this step");
    }
  }
}

void Supervisor::check_timeout() {
  if (job_.timeout && !timed_out_ && now() - started_ >= *job_.timeout) {
    timed_out_ = true;
    request_stop({"--timeout", ExitCode::kTimeout, static_cast<int>(ExitCode::kTimeout), kGrace},
                 "--timeout: saving at the end of this step, then exit 124");
  }
}

bool Supervisor::decide() {
  if (taken_over_ && !world_)
    return finish_between(*taken_over_, static_cast<int>(ExitCode::kRequeue));
  if (give_up_at_ && !leave_hosts_missing()) return false;
  if (resume_at_ && !leave_waiting()) return false;
  if (prepared_ && !start_prepared()) return false;
  while (const std::optional<Decision> decision =
             world_ ? membership_->tick(now()) : std::nullopt) {
    log_->info("epoch {}: {}", decision->epoch, decision->reason);
    switch (decision->kind) {
      case Decision::Kind::kStart:
        admit_all();
        break;
      case Decision::Kind::kStopAll:
        judge(*decision);
        world_->kill_all();
        break;
      case Decision::Kind::kFinish:
        return after_epoch(*decision);
    }
  }
  return true;
}

void Supervisor::judge(const Decision& decision) {
  record_.root_cause = decision.root_cause;
  record_.reason = decision.reason;
  record_.exit_code = decision.exit_code;
  if (decision.root_cause) {
    Failure& cause = *record_.root_cause;
    note_circumstances(cause);
    const bool given_up = was_given_up();
    std::vector<std::string> lost = world_ ? world_->lost_hosts() : std::exchange(unreachable_, {});
    if (given_up) {
      lost.clear();
      cause.detail = fmt::format(
          "dslaunch itself stood still for {}, longer than its agents on the hosts wait for it (12 "
          "s)",
          format_duration(stall_));
    }
    if (!given_up) {
      lost.insert(lost.end(), cause.without.begin(), cause.without.end());
      cut_off_.insert(cause.without.begin(), cause.without.end());
    }
    for (const std::string& host : lost) growth_.lost(now(), host);
    recourse_ = recovery_.after({.cause = cause,
                                 .host = plan_.ranks.at(static_cast<size_t>(cause.rank)).host,
                                 .exit_code = decision.exit_code,
                                 .stop_asked = stop_.has_value(),
                                 .later = plan_.epoch > first_epoch_,
                                 .committed = committed_,
                                 .ran = now() - epoch_started_,
                                 .lost_hosts = lost,
                                 .hosts_may_return = growth_.misses_any(),
                                 .own_stall = given_up});
    record_.reason = recourse_->reason;
    record_.exit_code = recourse_->exit_code;
    record_.epochs.back().reason = describe(cause);
  }
  console_.clear_live();
  console_.raw_error(failure_line(
      record_, recourse_ && recourse_->restart ? FaultAction::kRestart : FaultAction::kStop));
}

bool Supervisor::after_epoch(const Decision& decision) {
  end_epoch();
  record_.epochs.back().steps = record_.last_step ? record_.last_step->step() : 0;
  const bool saved =
      decision.exit_code == static_cast<int>(ExitCode::kRequeue) && !decision.root_cause;
  if (growing_ && saved && !stop_) {
    recourse_ = recovery_.growth(
        0);  // whatever is there by now; it cannot have become too small for any world
  }
  if (!recourse_ || !recourse_->restart) {
    Decision last = decision;
    if (recourse_) {
      last.root_cause = record_.root_cause;
      last.reason = recourse_->reason;
      last.exit_code = recourse_->exit_code;
    }
    finish_records(last);
    return false;
  }
  record_.restarts = recovery_.restarts();
  announce_next_epoch();
  if (recourse_->waits_for_hosts) {
    give_up_at_ = now() + job_.recovery.wait_for_hosts;
    look_again_at_ = now();
    return true;
  }
  resume_at_ = now() + recourse_->wait;
  return leave_waiting();
}

void Supervisor::announce_next_epoch() {
  const std::string from =
      (job_.config.keeps_in_memory ? "memory, or " : "") +
      (record_.last_commit ? record_.last_commit->tag() : std::string("the beginning"));
  const std::string what = recourse_->grows ? "growth"
                           : recourse_->blames_nobody
                               ? recourse_->reason
                               : fmt::format("restart {} of {}: {}", recovery_.counted(),
                                             recovery_.max_restarts(), recourse_->reason);
  const std::string next =
      recourse_->waits_for_hosts
          ? fmt::format("{}: waiting up to {} for lost hosts to come back",
                        recovery_.pool().why_not(), format_duration(job_.recovery.wait_for_hosts))
          : fmt::format("epoch {} with {} from {}{}", plan_.epoch + 1,
                        format_count(static_cast<int64_t>(recourse_->world.size()), "rank"), from,
                        recourse_->wait > Time::zero()
                            ? fmt::format(" in {}", format_duration(recourse_->wait))
                            : "");
  say(fmt::format("{}; {}", what, next));
  const std::string details =
      record_.root_cause ? death_details(*record_.root_cause, record_.circumstances) : "";
  if (!details.empty()) {
    say(details.substr(0, details.size() - 1));
  }
}

bool Supervisor::finish_between(const std::string& reason, int exit_code) {
  Decision end;
  end.kind = Decision::Kind::kFinish;
  end.epoch = plan_.epoch;
  end.reason = reason;
  end.exit_code = exit_code;
  end.root_cause = record_.root_cause;
  finish_records(end);
  return false;
}

// The user need not wait for an epoch nobody wants any more.
bool Supervisor::end_between() {
  record_.root_cause.reset();
  return finish_between(stop_->why, record_.last_commit ? static_cast<int>(stop_->code_when_saved)
                                                        : stop_->code_when_killed);
}

bool Supervisor::leave_waiting() {
  if (stop_) return end_between();
  if (now() >= *resume_at_) {
    resume_at_.reset();
    const Recourse next = *std::exchange(recourse_, std::nullopt);
    record_.root_cause.reset();
    record_.circumstances = {};
    prepared_grows_ = next.grows;
    prepare_epoch(next.world);
  }
  return true;
}

void Supervisor::finish_records(const Decision& decision) {
  console_.clear_live();
  if (console_.live() && record_.last_step)
    console_.closing_line(last_line(*record_.last_step, validated_));
  record_.exit_code = decision.exit_code;
  record_.reason = decision.reason;
  record_.root_cause = decision.root_cause;
  record_.elapsed = now() - started_;
  record_ended_ = true;
  if (job_.metrics_textfile) write_textfile();
  const RunRecords::Finished finished = records_.finish(report_json(record_), record_.exit_code);
  for (const std::string& problem : finished.problems) console_.line(problem);
  record_.written = finished.written;
}

}  // namespace ds
