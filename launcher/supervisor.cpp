#include "launcher/supervisor.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "launcher/credentials.h"
#include "launcher/plot.h"
#include "proto/build_info.h"

namespace ds {
namespace {

constexpr size_t kTokenBytes = 32;       // 256 bits
constexpr size_t kRendezvousBytes = 16;  // 128 bits
constexpr Time kTickPeriod = std::chrono::seconds(1);
constexpr Time kGrace = std::chrono::seconds(30);  // to save after TERM, Ctrl-C or --timeout

WorldPlan plan_world(int64_t epoch, int ranks) {
  WorldPlan plan;
  plan.epoch = epoch;
  for (int rank = 0; rank < ranks; ++rank) {
    plan.ranks.push_back({.host = "", .local_rank = rank, .local_size = ranks, .slot = rank});
    plan.tokens.push_back(random_bytes(kTokenBytes));
  }
  plan.rendezvous = "dslaunch-" + to_hex(random_bytes(kRendezvousBytes));
  return plan;
}

std::shared_ptr<spdlog::logger> make_log(const RunDirectory& directory) {
  const std::string path = (directory.file("logs") / "dslaunch.log").string();
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    auto log = std::make_shared<spdlog::logger>("dslaunch", std::move(sink));
    log->flush_on(spdlog::level::info);
    // A log that cannot be written must not end training.
    log->set_error_handler([](const std::string&) {});
    return log;
  } catch (const spdlog::spdlog_ex& error) {
    throw IoError(fmt::format("opening {}: {}", path, error.what()));
  }
}

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

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

std::string signal_name(int signal) { return fmt::format("SIG{}", sigabbrev_np(signal)); }

// Shared memory that a killed rank could not remove. Ours alone: the name is random.
void remove_shared_memory(const std::string& rendezvous) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    if (entry.path().filename().string().starts_with(rendezvous)) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

Membership::Options membership_options(const TrainingJob& job) {
  Membership::Options options;
  options.world_size = job.shape.ranks;
  return options;
}

}  // namespace

Supervisor::Supervisor(const TrainingJob& job, const RunDirectory& directory, WorldStarter& starter,
                       SignalWatch& signals, Console& console)
    : job_(job),
      directory_(directory),
      starter_(starter),
      signals_(signals),
      console_(console),
      log_(make_log(directory)),
      started_(now()),
      membership_(membership_options(job), started_),
      plan_(plan_world(1, job.shape.ranks)),
      metrics_(directory),
      print_policy_(job.config.steps_per_print) {
  record_.host = this_host();
  record_.ranks.resize(static_cast<size_t>(job.shape.ranks));
}

Supervisor::~Supervisor() {
  world_.reset();  // kills what is left
  remove_shared_memory(plan_.rendezvous);
}

Time Supervisor::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

RunRecord Supervisor::run() {
  start_world();  // first: the ranks load while we write
  write_whole_file(directory_.file("config.json"), job_.config.canonical_text + "\n");
  while (decide()) {
    wait_for_something();
    take_rank_events();
    take_ends();
    take_signals();
    check_timeout();
  }
  return record_;
}

void Supervisor::start_world() {
  world_ = starter_.start(plan_);
  coordinator_.emplace(
      Coordinator::Options{plan_.epoch, plan_.tokens, build_id(), job_.config.digest});
  for (Fd& connection : world_->take_connections()) {
    coordinator_->adopt(std::move(connection));
  }
  for (int rank = 0; rank < world_->size(); ++rank) {
    log_->info("rank {} is {}", rank, world_->describe(rank));
  }
  console_.set_live(fmt::format("starting {} ...", format_count(job_.shape.ranks, "rank")));
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}, {coordinator_->event_fd(), POLLIN, 0}};
  world_->add_poll_descriptors(watched);
  const Time left = std::clamp(membership_.next_deadline() - now(), Time::zero(), kTickPeriod);
  const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(left);
  poll(watched.data(), watched.size(), static_cast<int>(timeout.count()));
}

void Supervisor::take_rank_events() {
  for (const RankEvent& event : coordinator_->take_events()) {
    if (const auto* join = std::get_if<JoinEvent>(&event.body)) {
      take_join(event, *join);
    } else if (const auto* refused = std::get_if<JoinRefused>(&event.body)) {
      membership_.reported_end(event.at, event.rank, static_cast<int>(ExitCode::kClusterUnusable),
                               Blame::kOwn, refused->reason);
    } else if (const auto* message = std::get_if<control::RankMessage>(&event.body)) {
      take_message(event, *message);
    }
  }
}

void Supervisor::take_join(const RankEvent& event, const JoinEvent& join) {
  const WorldMember member{event.rank, event.epoch, join.request.host(), join.request.pid()};
  if (const auto refusal = membership_.joined(now(), member)) {
    coordinator_->refuse(join.ticket, *refusal);
    log_->warn("rank {} refused: {}", event.rank, *refusal);
    return;
  }
  tickets_[event.rank] = join.ticket;
  log_->info("rank {} joined after {:.3f} s", event.rank,
             std::chrono::duration<double>(now() - started_).count());
}

void Supervisor::take_message(const RankEvent& event, const control::RankMessage& message) {
  RankProgress progress;
  switch (message.body_case()) {
    case control::RankMessage::kHeartbeat:
      progress = {message.heartbeat().step(), message.heartbeat().micro_step(),
                  message.heartbeat().phase()};
      membership_.heartbeat(event.at, event.epoch, event.rank, progress);
      break;
    case control::RankMessage::kStep:
      take_step(message.step());
      progress = {message.step().step(), 0, "train"};
      membership_.heartbeat(event.at, event.epoch, event.rank, progress);
      break;
    case control::RankMessage::kCommit:
      take_commit(message.commit());
      break;
    case control::RankMessage::kText:
      console_.line(message.text());
      log_->info("rank {}: {}", event.rank, message.text());
      break;
    case control::RankMessage::kPlanJson:
      write_whole_file(directory_.file("plan.json"), message.plan_json());
      break;
    case control::RankMessage::kMeasured:
      record_.ranks[static_cast<size_t>(event.rank)].measured = message.measured();
      break;
    case control::RankMessage::kFinal: {
      const control::FinalReport& final = message.final();
      const bool echo = final.origin() == control::FinalReport::PEER;
      membership_.reported_end(event.at, event.rank, final.exit_code(),
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
  metrics_.append(metrics);
  record_.last_step = metrics;
  const std::string line =
      step_line(metrics, pace_.update(now(), metrics.step(), metrics.total_steps()));
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
  const std::string line = fmt::format("committed tag={} step={}", tag.tag(), tag.step());
  console_.line(line);
  log_->info("{}", line);
}

void Supervisor::take_ends() {
  const auto show = [this](int rank, std::string_view line) { console_.rank_output(rank, line); };
  world_->pump(show);
  for (int rank = 0; rank < world_->size(); ++rank) {
    if (const std::optional<ExitStatus> status = world_->newly_ended(rank, show)) {
      RankRecord& record = record_.ranks[static_cast<size_t>(rank)];
      record.exit_code = status->signal == 0 ? std::optional(status->code) : std::nullopt;
      record.signal = status->signal;
      // What it said before it ended has long arrived, and must be heard first.
      take_rank_events();
      membership_.ended(now(), rank, status->code, status->signal);
      log_->info("rank {} {}", rank, describe(*status));
    }
  }
}

void Supervisor::request_stop(const StopRequest& request, const std::string& notice) {
  membership_.stop_requested(now(), request);
  coordinator_->send_to_all(control::CommandMessage::STOP_AND_SAVE);
  console_.line(notice);
  log_->info("{}", notice);
}

void Supervisor::take_signals() {
  while (const std::optional<int> signal = signals_.take()) {
    log_->info("signal {}", signal_name(*signal));
    const StopRequest graceful{*signal == SIGINT ? "Ctrl-C" : signal_name(*signal),
                               ExitCode::kRequeue, 128 + *signal, kGrace};
    if (*signal == SIGUSR2) {
      coordinator_->send_to_all(control::CommandMessage::DUMP);
      console_.line(membership_.explain());
    } else if (*signal == SIGUSR1) {
      StopRequest unhurried = graceful;
      unhurried.grace.reset();  // the scheduler that sends it knows how much time is left
      request_stop(unhurried, "USR1: saving at the end of this step, then exit 75");
    } else if (*signal == SIGINT && ++interrupts_ > 1) {
      membership_.kill_requested(now(), 128 + SIGINT, "second Ctrl-C");
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
  while (const std::optional<Decision> decision = membership_.tick(now())) {
    log_->info("epoch {}: {}", decision->epoch, decision->reason);
    switch (decision->kind) {
      case Decision::Kind::kStart:
        admit_all();
        break;
      case Decision::Kind::kStopAll:
        record_.root_cause = decision->root_cause;
        record_.reason = decision->reason;
        record_.exit_code = decision->exit_code;
        console_.clear_live();
        console_.raw_error(failure_line(record_));
        world_->kill_all();
        break;
      case Decision::Kind::kFinish:
        finish_records(*decision);
        return false;
    }
  }
  return true;
}

void Supervisor::admit_all() {
  control::JobPlan plan;
  plan.set_world_size(job_.shape.ranks);
  plan.set_epoch(plan_.epoch);
  plan.set_threads(job_.shape.threads);
  plan.set_config_text(job_.config.canonical_text);
  plan.set_config_dir(job_.config.directory.string());
  plan.set_run_dir(directory_.path().string());
  plan.set_resume(to_proto(job_.resume));
  plan.set_rendezvous(plan_.rendezvous);
  for (const auto& [rank, ticket] : tickets_) {
    plan.set_rank(rank);
    const RankPlacement& placement = plan_.ranks[static_cast<size_t>(rank)];
    plan.set_local_rank(placement.local_rank);
    plan.set_local_size(placement.local_size);
    coordinator_->admit(ticket, plan);
  }
  tickets_.clear();
}

void Supervisor::finish_records(const Decision& decision) {
  console_.clear_live();
  record_.exit_code = decision.exit_code;
  record_.reason = decision.reason;
  record_.root_cause = decision.root_cause;
  record_.elapsed = now() - started_;
  write_whole_file(directory_.file("report.json"), report_json(record_));
  if (!metrics_.points().empty()) {
    write_whole_file(directory_.file("loss.svg"),
                     loss_plot(fmt::format("loss, {}", job_.config.stem), metrics_.points()));
  }
}

}  // namespace ds
