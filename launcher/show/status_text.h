// A run's status for people and for Prometheus (pure).
#pragma once

#include <string>

#include "launcher/control/run_status.h"

namespace ds {

// Some lines and a table of the ranks.
std::string status_text(const RunStatus& status);

// The text exposition format. Labels: run (the name of its directory), and rank and host for what
// is of one rank; nothing that grows with time.
std::string status_prometheus(const RunStatus& status);

// One line on where a rank is: "at step 12.1 train, inside all_gather #57 of data".
std::string place_text(const RankStatus& rank);

// Who is waited for, or not heard, empty where all is well.
std::string verdict_text(const RunStatus& status);

}  // namespace ds
