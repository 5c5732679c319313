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

// The same beside the number of its step: "train, inside all_gather #57 of data, micro-step 1".
std::string doing_text(const RankStatus& rank);

// "running, generation 2, 1 restart, for 1m30s, pid 77": its phase first.
std::string headline_text(const RunStatus& status);

// Seconds of a status, which may be any number, are written as "1m30s".
std::string seconds_text(double seconds);

// Whether a rank that is there should have been heard since.
bool is_silent(const RankStatus& rank);

// Who is waited for, or not heard, empty where all is well.
std::string verdict_text(const RunStatus& status);

}  // namespace ds
