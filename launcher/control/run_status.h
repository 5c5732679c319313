// What there is to say about one run at one moment, running or over: a value, filled by the
// supervisor or from what a run left, shown by launcher/show/status_text.h. It travels between
// processes as JSON.
#pragma once

#include <rapidjson/fwd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/step_metrics.h"
#include "launcher/control/run_trace.h"
#include "launcher/decide/devices/gpu_state.h"
#include "launcher/decide/hang_watch.h"
#include "proto/control.pb.h"

namespace ds {

struct RankStatus {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  std::string state;  // "absent", "alive", "ending", "gone"
  RankProgress progress;
  double silent_s = 0;            // since it was heard
  std::optional<GpuState> gpu{};  // that it computes on; its figures alone are of this moment
};

struct RunStatus {
  std::string run_dir;
  std::string config;
  // "starting", "running", "paused", "stopping", "restarting"; of a run that is over: "done",
  // "stopped" (saved, wants to go on), "failed", "killed" (nobody wrote a report).
  std::string phase;
  int64_t launcher_pid = 0;  // 0: no process
  int64_t epoch = 0;
  int restarts = 0;
  double elapsed_s = 0;
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
// Of a run that ended with this code.
std::string phase_of(int exit_code);
// What report.json says of a run that is over, into the fields that it has. Throws DataError.
void add_report(std::string_view report_json, RunStatus& status);

}  // namespace ds
