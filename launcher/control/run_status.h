// What there is to say about one run at one moment, running or over: a value, filled by the
// supervisor or from what a run left, shown by launcher/report/status_text.h. It travels between
// processes as JSON.
#pragma once

#include <rapidjson/fwd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/step_metrics.h"
#include "launcher/control/run_trace.h"
#include "launcher/decide/devices/gpu_state.h"
#include "launcher/decide/watch/hang_watch.h"
#include "proto/control.pb.h"

namespace ds {

// What is not known is absent here, null in JSON, no sample in Prometheus and "-" in text. It is
// never 0.
struct RankStatus {
  int rank = 0;
  std::string host;
  int64_t pid = 0;    // 0: not known
  std::string state;  // "absent", "alive", "ending", "gone"
  RankProgress progress;
  std::optional<double> silent_s{};  // since it was heard; nothing: it never was
  std::optional<GpuState> gpu{};     // that it computes on; its figures alone are of this moment
};

struct RunStatus {
  std::string run_dir;
  std::string config;
  // "starting", "running", "paused", "stopping", "restarting"; of a run that is over: "done",
  // "stopped" (saved, wants to go on), "failed", "killed" (nobody wrote a report).
  std::string phase;
  int64_t launcher_pid = 0;     // 0: no process
  int64_t generation = 0;       // of the world; 0: not known
  std::optional<int> restarts;  // nothing: a run that was killed, and counted for nobody
  std::optional<double> elapsed_s;
  bool stop_requested = false;
  std::optional<int> exit_code;
  std::string reason;  // why it ended, or why the last epoch did
  std::optional<StepMetrics> last_step;
  std::optional<double> left_s;
  std::optional<control::CommittedTag> last_commit;
  std::string waits_for;  // "rank 2: ...", empty where nobody is waited for in particular
  std::vector<RankStatus> ranks;
  TraceStatus trace{};

  bool live() const { return launcher_pid != 0; }
};

// One JSON object, one line without the newline.
std::string status_json(const RunStatus& status);
// Reads what status_json() wrote. Throws DataError.
RunStatus parse_status(std::string_view json);
RunStatus read_status(const rapidjson::Value& object);
// Returns the phase of a run that ended with this code.
std::string phase_of(int exit_code);
// What report.json says of a run that is over, into the fields that it has. Throws DataError.
void add_report(std::string_view report_json, RunStatus& status);
// The line that metrics.jsonl ends with, for a run whose report does not say as much of its last
// step. Nothing of one that is no line of metrics.
void add_metrics_line(std::string_view line, RunStatus& status);

// A step with all of its metrics, as status_json() and report.json have it.
std::string step_json(const StepMetrics& step);

}  // namespace ds
