// How a run ended, for people and for programs: the failure line, report.json, and the closing words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/membership.h"
#include "launcher/run_directory.h"
#include "proto/control.pb.h"

namespace ds {

struct RankRecord {
  std::optional<int> exit_code;
  int signal = 0;
  control::Measured measured;
};

// Everything the launcher learns about a run; filled as it happens.
struct RunRecord {
  std::string host;
  int64_t epoch = 1;
  std::vector<RankRecord> ranks;
  std::optional<control::StepMetrics> last_step;
  std::optional<control::CommittedTag> last_commit;
  std::optional<Failure> root_cause;
  std::string reason;
  int exit_code = 0;
  Time elapsed{};
};

// One JSON line, faults-and-security.md section 2.
std::string failure_line(const RunRecord& record);
std::string report_json(const RunRecord& record);

// The root cause in words, with what to look at next. Empty where nothing failed.
std::string failure_text(const RunRecord& record, const RunDirectory& directory);
// "done: ..." and where everything lies; names only what exists.
std::string closing_text(const RunRecord& record, const RunDirectory& directory);

}  // namespace ds
