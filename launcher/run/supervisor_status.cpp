// The part of the supervisor that says what happens and takes orders while the run goes on.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/control/control_request.h"
#include "launcher/report/status_text.h"
#include "launcher/run/supervisor.h"

namespace ds {
namespace {

constexpr Time kTextfilePeriod = std::chrono::seconds(5);
constexpr double kAwaitedAfter = 2.5;  // seconds; shorter waits are everyday life

RankStatus to_status(int rank, const Membership::RankView& view, const std::string& host) {
  RankStatus out;
  out.rank = rank;
  out.host = host;
  if (view.member) {
    out.host = host.empty() ? view.member->host : host;
    out.pid = view.member->pid;
    out.silent_s = seconds_of(view.silence);
  }
  out.progress = view.progress;
  out.state = view.gone ? "gone" : !view.member ? "absent" : view.ending ? "ending" : "alive";
  return out;
}

}  // namespace

void Supervisor::open_control_socket() {
  try {
    control_.emplace(control_socket_name(directory_.path(), geteuid()), ControlSocket::Limits{});
  } catch (const IoError& error) {
    console_.line(
        fmt::format("note: dslaunch status and ctl will not reach this run: {}", error.what()));
    log_->warn("{}", error.what());
  }
}

void Supervisor::take_requests() {
  if (control_) {
    control_->serve(now(), [this](std::string_view request) { return answer(request); });
  }
  if (metrics_endpoint_)
    metrics_endpoint_->serve(now(), [this] { return status_prometheus(status()); });
  if (job_.metrics_textfile && now() >= textfile_at_) write_textfile();
}

void Supervisor::write_textfile() {
  textfile_at_ = now() + kTextfilePeriod;
  records_.textfile(status_prometheus(status()));
}

std::string Supervisor::answer(std::string_view request) {
  try {
    const std::string notice = execute(parse_control_request(request));
    if (!notice.empty()) log_->info("asked through the control socket: {}", notice);
    return control_reply(notice, status());
  } catch (const std::exception& error) {
    return control_refusal(error.what());
  }
}

// What was done, in words; throws Unsupported where it cannot be done now.
std::string Supervisor::execute(const ControlRequest& request) {
  const bool training = epoch_ && core_.membership()->running();
  switch (request.verb) {
    case ControlVerb::kStatus:
      return "";
    case ControlVerb::kStop: {
      constexpr int kKilled = 143;
      request_stop({"dslaunch ctl stop", ExitCode::kRequeue, kKilled, std::nullopt},
                   "dslaunch ctl stop: saving at the end of this step, then exit 75");
      return "saving at the end of this step, then exit 75";
    }
    case ControlVerb::kPause:
    case ControlVerb::kResume: {
      const bool wanted = request.verb == ControlVerb::kPause;
      if (core_.stopping()) throw Unsupported("the run is stopping");
      if (core_.paused() == wanted) return wanted ? "it is paused already" : "it is not paused";
      // An epoch that is still to start pauses after its first step.
      happened(wanted ? RunEvent(run_event::Paused{}) : RunEvent(run_event::Resumed{}));
      if (epoch_) {
        epoch_->coordinator->send_to_all(wanted ? control::CommandMessage::PAUSE
                                                : control::CommandMessage::RESUME);
      }
      const std::string notice = wanted ? "pausing at the end of this step" : "going on";
      console_.line("dslaunch ctl: " + notice);
      return notice;
    }
    case ControlVerb::kSave:
      if (!training) throw Unsupported("the ranks are not training yet; ask again when they are");
      epoch_->coordinator->send_to_all(control::CommandMessage::SAVE_NOW);
      return "saving at the end of this step";
    case ControlVerb::kJoin:
      return join_new_hosts();
    case ControlVerb::kTrace:
      if (!training) throw Unsupported("the ranks are not training yet; ask again when they are");
      return begin_trace(request);
    case ControlVerb::kTraceStop:
      return stop_trace();
    case ControlVerb::kStack:
      if (!epoch_) throw Unsupported("no rank is there between two generations");
      epoch_->coordinator->send_to_all(control::CommandMessage::DUMP);
      return "every rank writes what it does into its log";
  }
  return "";
}

RunStatus Supervisor::status() const {
  RunStatus out;
  out.run_dir = directory_.path().string();
  out.config = job_.config.stem;
  out.launcher_pid = record_ended_ ? 0 : getpid();
  out.generation = core_.epoch();
  out.restarts = record_.restarts;
  out.elapsed_s = seconds_of(record_ended_ ? record_.elapsed : now() - started_);
  out.stop_requested = core_.stopping();
  out.reason = record_.reason;
  out.last_step = record_.last_step;
  out.last_commit = record_.last_commit;
  out.trace = record_.trace.status();
  if (shown_.ends && !record_ended_) {
    out.left_s = std::max(0.0, seconds_of(*shown_.ends - now()));
  }
  if (record_ended_) {
    // A launch that had nothing left to do: as the files show it from now on.
    if (!out.last_step) add_metrics_line(job_.past.metrics_line, out);
    out.exit_code = record_.exit_code;
    out.phase = phase_of(record_.exit_code);
    return out;
  }
  if (!epoch_) {
    out.phase = "restarting";
    return out;
  }
  const Membership& membership = *core_.membership();
  int rank = 0;
  bool all_paused = true;
  for (const Membership::RankView& view : membership.ranks(now())) {
    out.ranks.push_back(to_status(rank, view, epoch_->plan.ranks.at(to_size(rank)).host));
    out.ranks.back().gpu = epoch_->world ? epoch_->world->gpu_of(rank) : std::nullopt;
    all_paused = all_paused && view.progress.phase == "paused";
    ++rank;
  }
  out.phase = membership.running() ? (all_paused ? "paused" : "running")
                                   : (membership.gathering() ? "starting" : "stopping");
  const auto awaited = membership.running() ? membership.awaited(now()) : std::nullopt;
  if (awaited && seconds_of(awaited->still) > kAwaitedAfter) {
    out.waits_for = fmt::format("rank {}: {}", awaited->rank, awaited->words);
  }
  return out;
}

}  // namespace ds
