// Training as one rank: the entry that rankd calls once it has joined.
#pragma once

#include <optional>

#include "comm/tcp/comm.h"
#include "rankd/control/control_client.h"
#include "train/settings/job.h"

namespace ds {

// Trains to the end or until a stop command. Returns the exit code of the process: 0 done, 75
// stopped and saved. Throws an Error (core/status/error.h) for everything else; the caller reports
// it. The listener is taken where the plan has data endpoints. `results_late`: as RankResources';
// nothing: what the device asks for.
int run_training(const JobPlan& plan, ControlClient& control, TcpListener& listener,
                 std::optional<int> results_late = std::nullopt);

}  // namespace ds
