// How a run ended, for people and for programs: the failure line, report.json, and the closing
// words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/values/step_metrics.h"
#include "launcher/control/run_trace.h"
#include "launcher/decide/watch/membership.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/report/death_certificate.h"
#include "launcher/report/goodput.h"
#include "proto/control.pb.h"

namespace ds {

struct RankRecord {
  std::optional<int> exit_code;
  int signal = 0;
  std::optional<control::Measured> measured{};  // nothing: it ended before it said so
};

struct EpochRecord {
  int64_t epoch = 1;
  size_t ranks = 0;
  std::optional<int64_t> steps{};  // the last one it reported; nothing: it did none
  std::string reason{};            // why it ended, empty for the last epoch of a run that went well
};

// Everything the launcher learns about a run; filled as it happens.
struct RunRecord {
  std::string host;
  std::vector<EpochRecord> epochs;
  int restarts = 0;
  std::vector<RankRecord> ranks;  // of the last epoch
  std::optional<StepMetrics> last_step;
  std::optional<control::CommittedTag> last_commit;
  std::optional<Failure> root_cause;
  DeathCircumstances circumstances;  // of the root cause
  std::string reason;
  RunTrace trace;          // the newest of the running job
  std::string bad_number;  // JSON, of a step that was not finite; empty: there was none
  int exit_code = 0;
  GoodputAccount goodput;
  Time elapsed{};
  std::vector<std::string> written;  // files of the run directory that are whole
};

enum class FaultAction { kStop, kRestart };
// One JSON line that programs can wait for.
std::string failure_line(const RunRecord& record, FaultAction action);
std::string report_json(const RunRecord& record);

// The root cause in words, with what to look at next. Empty where nothing failed.
std::string failure_text(const RunRecord& record, const RunDirectory& directory);
// "done: ..." and where everything lies; names only what exists.
std::string closing_text(const RunRecord& record, const RunDirectory& directory);

}  // namespace ds
