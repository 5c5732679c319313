// One run from the first process to the last, over as many epochs as it takes: a single-threaded
// loop that hears the ranks (control events, output, ends of processes), the user (signals) and the
// clock, tells RunCore, which decides, and carries it out. It keeps the run directory's records on
// the way.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/values/device.h"
#include "launcher/control/control_request.h"
#include "launcher/control/control_socket.h"
#include "launcher/control/job_authority.h"
#include "launcher/decide/run_core.h"
#include "launcher/process/machine.h"
#include "launcher/process/signals.h"
#include "launcher/process/world.h"
#include "launcher/report/console.h"
#include "launcher/report/metrics_endpoint.h"
#include "launcher/report/past_progress.h"
#include "launcher/report/progress.h"
#include "launcher/report/report.h"
#include "launcher/report/run_records.h"
#include "launcher/run/epoch.h"
#include "launcher/run/job_config.h"
#include "launcher/run/job_devices.h"

namespace ds {

struct TrainingJob {
  JobConfig config;
  WorldShape shape;
  DataPlane data_plane = DataPlane::kShm;
  ResumeMode resume = ResumeMode::kAuto;
  std::string resume_tag;  // the checkpoint to go on from; empty: as `resume` says
  std::optional<Time> timeout;
  std::optional<Time> time_limit;  // from the supervisor's start until somebody ends the job
  std::string limited_by;          // who does, such as "Slurm"
  Recovery::Options recovery;
  HangWatch::Options hang;
  Time join_timeout = std::chrono::seconds(60);  // of each epoch, for all of its ranks
  Device device{};                               // on which every rank computes
  SlotGpus slot_gpus{};                          // as JobDevices has them
  bool audit_samples = false;
  bool becomes_latest = true;                             // runs/latest, once it trains
  std::optional<std::filesystem::path> metrics_textfile;  // for Prometheus
  std::optional<std::string> metrics_listen;              // where it may ask
  NodePool::Options nodes;
  std::function<std::vector<PoolNode>()>
      read_nodes;            // the hostfile, read again; not set: there is none
  int coordinator_port = 0;  // where ranks dial it; 0: any free one
  int64_t newest_epoch = 0;  // that the hosts of the ranks know of in the run directory
  PastProgress past;         // in the run directory
  bool accept_changes = false;
  std::shared_ptr<const control::GenerationOrder> generation;  // null: ranks train
  std::shared_ptr<const JobAuthority> authority;  // by which agents came; not set: none have yet
};

class Supervisor {
 public:
  Supervisor(const TrainingJob& job, RunRecords& records, WorldStarter& starter,
             SignalWatch& signals, Console& console);
  Supervisor(const Supervisor&) = delete;  // owns processes and a server
  Supervisor& operator=(const Supervisor&) = delete;

  // Runs to the end; report.json and loss.svg are written, if the disk takes them. Throws what
  // prevents the first epoch, and Error(kClusterUnusable), before any rank is started, if nobody
  // can listen where metrics are wanted.
  RunRecord run();

 private:
  struct Shown {  // of the steps
    PrintPolicy policy;
    PaceEstimate pace{};
    std::optional<StepMetrics> validated{};  // the newest step with a validation loss
    Time live_at{};
    std::optional<Time> ends{};  // when the last step should be done, as the pace suggests
  };

  static Time now();
  void say(const std::string& line);  // to the user and the log
  void wait_for_something();
  void take_rank_events();
  void take_join(const RankEvent& event, const JoinEvent& join);
  void take_message(const RankEvent& event, const control::RankMessage& message);
  void take_step(const StepMetrics& metrics);
  void show_phase(const RankProgress& progress);
  void show_live(const std::string& line);
  void take_commit(const control::CommittedTag& tag);
  void take_ends();
  void take_end(int rank, const ExitStatus& status);
  void take_signals();
  void keep_records();
  void notice_own_stall();
  void happened(const RunEvent& event) { core_.event(now(), event); }
  void request_stop(const StopRequest& request, const std::string& notice);
  void announce_deadline();
  // What RunCore wants, until that is nothing.
  void carry_out_all();
  bool carry_out_next();  // false if there was nothing
  void execute(const run_action::Tell& action);
  void execute(const run_action::SaveAndEnd& action);
  void execute(const run_action::KillRanks& action);
  void execute(const run_action::AnnounceNext& action);
  void execute(const run_action::FinishRun& action);
  // supervisor_epoch.cpp
  void take_claim();
  void execute(const run_action::ClaimEpoch& action);
  void execute(const run_action::StartEpoch& action);
  void execute(const run_action::AdmitRanks& action);
  void execute(const run_action::EndEpoch& action);
  void start_epoch();
  control::JobPlan job_plan() const;
  control::JobPlan::Resume resume_mode() const;
  void report_progress(control::JobPlan& plan) const;
  // supervisor_death.cpp
  void hear(int rank, std::string_view line);
  void execute(const run_action::LearnCause& action);
  void execute(const run_action::ReportFailure& action);
  // supervisor_status.cpp
  void open_control_socket();
  void take_requests();
  void write_textfile();
  std::string answer(std::string_view request);
  std::string execute(const ControlRequest& request);
  // supervisor_trace.cpp
  std::string begin_trace(const ControlRequest& request);
  std::string stop_trace();
  void take_trace(int rank, const control::TracePart& part);
  RunStatus status() const;
  // supervisor_growth.cpp
  void take_candidates();
  void take_room();
  void record_nothing_committed();
  void execute(const run_action::SeekHost& action);
  void execute(const run_action::TryLinks& action);
  std::string join_new_hosts();

  const TrainingJob job_;
  RunRecords& records_;
  const RunDirectory& directory_;
  WorldStarter& starter_;
  SignalWatch& signals_;
  Console& console_;
  spdlog::logger* const log_;  // of records_
  const Time started_;
  RunCore core_;
  std::shared_ptr<const JobAuthority> authority_;  // once ranks of other hosts dial us
  std::optional<WorldPlan> prepared_;  // of the next epoch, whose number is being claimed
  std::optional<Epoch> epoch_;         // nothing between two of them
  Time last_turn_{};                   // of the loop
  Shown shown_;
  RunRecord record_;
  std::optional<ControlSocket> control_;
  std::optional<MetricsEndpoint> metrics_endpoint_;
  bool record_ended_ = false;  // report.json is written
  Time textfile_at_{};
  int interrupts_ = 0;
};

}  // namespace ds
