// What can be asked of a running dslaunch (pure): one line of JSON, {"verb": "status"}, and the
// replies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/run_status.h"

namespace ds {

enum class ControlVerb {
  kStatus,
  kStack,
  kSave,
  kStop,
  kPause,
  kResume,
  kJoin,
  kTrace,      // of so many steps, of these ranks (none: of all)
  kTraceStop,  // what is recorded ends at the next step edge
};

struct ControlRequest {
  ControlVerb verb = ControlVerb::kStatus;
  int64_t steps = 0;         // of kTrace, and its ranks
  std::vector<int> ranks{};  // {"verb": "trace", "steps": 3, "ranks": [0, 1]}
};

std::string control_request(ControlVerb verb);
std::string control_request(const ControlRequest& request);
// Returns the verb of this name, as a request and `dslaunch ctl` have it. Throws UsageError if
// there is no such verb.
ControlVerb control_verb(std::string_view name);
// Throws DataError naming what is wrong, UsageError for a verb there is not.
ControlRequest parse_control_request(std::string_view line);

std::string control_reply(std::string_view notice, const RunStatus& status);
std::string control_refusal(std::string_view error);

}  // namespace ds
