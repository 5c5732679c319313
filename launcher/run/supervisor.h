// One run from the first process to the last, over as many epochs as it takes: a single-threaded
// loop that hears the ranks (control events, output, ends of processes), the user (signals) and the
// clock, lets Membership (one epoch) and Recovery (what comes after it) decide, and carries it out.
// It keeps the run directory's records on the way.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/control/control_request.h"
#include "launcher/control/control_socket.h"
#include "launcher/control/coordinator.h"
#include "launcher/control/job_authority.h"
#include "launcher/decide/deadline_watch.h"
#include "launcher/decide/growth.h"
#include "launcher/decide/membership.h"
#include "launcher/decide/recovery.h"
#include "launcher/process/machine.h"
#include "launcher/process/signals.h"
#include "launcher/process/world.h"
#include "launcher/run/job_config.h"
#include "launcher/show/console.h"
#include "launcher/show/metrics_endpoint.h"
#include "launcher/show/past_progress.h"
#include "launcher/show/progress.h"
#include "launcher/show/report.h"
#include "launcher/show/run_records.h"

namespace ds {

struct TrainingJob {
  JobConfig config;
  WorldShape shape;
  ResumeMode resume = ResumeMode::kAuto;
  std::optional<Time> timeout;
  std::optional<Time> time_limit;  // from the supervisor's start until somebody ends the job
  std::string limited_by;          // who does, such as "Slurm"
  Recovery::Options recovery;
  HangWatch::Options hang;
  bool audit_samples = false;
  std::optional<std::filesystem::path> metrics_textfile;  // for Prometheus
  std::optional<std::string> metrics_listen;              // where it may ask
  NodePool::Options nodes;
  std::function<std::vector<PoolNode>()>
      read_nodes;            // the hostfile, read again; not set: there is none
  int coordinator_port = 0;  // where ranks dial it; 0: any free one
  int64_t newest_epoch = 0;  // that the hosts of the ranks know of in the run directory
  PastProgress past;         // in the run directory
  bool accept_changes = false;
};

class Supervisor {
 public:
  Supervisor(const TrainingJob& job, RunRecords& records, WorldStarter& starter,
             SignalWatch& signals, Console& console);
  Supervisor(const Supervisor&) = delete;  // owns processes and a server
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();

  // Runs to the end; report.json and loss.svg are written, if the disk takes them. Throws what
  // prevents the first epoch, and Error(kClusterUnusable), before any rank is started, if nobody
  // can listen where metrics are wanted.
  RunRecord run();

 private:
  static Time now();
  void say(const std::string& line);  // to the user and the log
  void wait_for_something();
  void take_rank_events();
  void take_join(const RankEvent& event, const JoinEvent& join);
  void take_message(const RankEvent& event, const control::RankMessage& message);
  void take_step(const control::StepMetrics& metrics);
  void show_live(const std::string& line);
  void take_commit(const control::CommittedTag& tag);
  void take_ends();
  void take_signals();
  void check_timeout();
  void keep_records();
  void notice_own_stall();
  bool was_given_up() const;  // by the hosts, because it stood still
  void request_stop(const StopRequest& request, const std::string& notice);
  void finish_records(const Decision& decision);
  // Each of these is false once the run is over.
  bool decide();
  bool after_epoch(const Decision& decision);
  bool leave_waiting();
  bool end_between();
  bool finish_between(const std::string& reason, int exit_code);
  void judge(const Decision& decision);  // an epoch that failed: what now?
  void announce_next_epoch();
  // supervisor_epoch.cpp
  void prepare_epoch(std::vector<RankPlacement> ranks);
  bool start_prepared();                   // false if the run is over
  bool give_up_start(const Error& error);  //
  void start_epoch();
  void open_coordinator();
  void end_epoch();
  void admit_all();
  control::JobPlan::Resume resume_mode() const;
  void tell_progress(control::JobPlan& plan) const;
  // supervisor_death.cpp
  void hear(int rank, std::string_view line);
  void note_circumstances(Failure& cause);
  // supervisor_deadline.cpp
  void announce_deadline();
  void check_deadline();
  // supervisor_status.cpp
  void open_control_socket();
  void take_requests();
  void write_textfile();
  std::string answer(std::string_view request);
  std::string obey(ControlVerb verb);
  RunStatus status() const;
  // supervisor_growth.cpp
  void look_for_hosts();
  std::string look_at_links(const std::string& host);
  void begin_growth();
  std::string join_new_hosts();
  bool leave_hosts_missing();  // false if the run is over
  bool do_without(std::vector<std::string>& vanished);

  const TrainingJob job_;
  RunRecords& records_;
  const RunDirectory& directory_;
  WorldStarter& starter_;
  SignalWatch& signals_;
  Console& console_;
  spdlog::logger* const log_;  // of records_
  const Time started_;
  Recovery recovery_;
  // The epoch: all of it is there between start_epoch() and end_epoch().
  WorldPlan plan_;
  std::optional<Membership> membership_;
  std::unique_ptr<World> world_;
  std::optional<JobAuthority> authority_;  // once ranks of other hosts dial us
  std::optional<Coordinator> coordinator_;
  std::map<int, uint64_t> tickets_;            // of ranks that joined and wait to be admitted
  std::map<int, std::string> data_endpoints_;  // of ranks that listen for data
  std::map<int, LastWords> last_words_;
  std::map<int, MemoryDeath> memory_deaths_;  // of ranks that somebody else killed
  Time epoch_started_{};
  bool committed_ = false;  // a tag in this epoch
  Growth growth_{Growth::Options{}};
  std::set<std::string> cut_off_;  // hosts whose ways to the others nobody has tried since
  bool growing_ = false;           // the epoch was asked to end so that a larger one can begin
  std::vector<std::string> unreachable_;  // hosts that failed before the epoch could start
  std::optional<Recourse> recourse_;      // decided when the epoch failed
  std::optional<Time> resume_at_;         // between epochs: when the next one starts
  std::optional<WorldPlan>
      prepared_;  // between epochs: the next one, whose number is being claimed
  bool prepared_grows_ = false;
  std::optional<Time> give_up_at_;         // between epochs: how long lost hosts have to come back
  Time look_again_at_{};                   // for those
  Time last_turn_{};                       // of the loop
  Time stall_{};                           // the last one of ours
  Time stalled_at_{};                      // when it was over
  std::optional<std::string> taken_over_;  // by another launcher, in words
  std::optional<StopRequest> stop_;        // of the user, whatever epoch it came in
  int64_t first_epoch_ = 0;
  PaceEstimate pace_;
  PrintPolicy print_policy_;
  std::optional<control::StepMetrics> validated_;  // the newest step with a validation loss
  RunRecord record_;
  Time live_at_{};
  std::optional<DeadlineWatch> deadline_;
  bool deadline_stop_ = false;  // has been requested
  std::optional<Time> left_;    // to the last step, as the pace suggests
  std::optional<ControlSocket> control_;
  std::optional<MetricsEndpoint> metrics_endpoint_;
  bool paused_ = false;        // by the user, whatever epoch it is
  bool record_ended_ = false;  // report.json is written
  Time textfile_at_{};
  int interrupts_ = 0;
  bool timed_out_ = false;
};

}  // namespace ds
