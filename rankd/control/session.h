// The frame around training as one rank: take the bootstrap from standard input, die with the
// launcher, join, run, and report how it ended. Refuses to know what training is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rankd/control/bootstrap.h"
#include "rankd/control/control_client.h"
#include "train/settings/job.h"

namespace ds {

class TcpListener;  // of comm/tcp/comm.h

// The kernel ends this process as soon as that one, its parent, is gone; 0: nothing is done.
// CommError where it is gone already.
void die_with_launcher(int64_t launcher_pid);

// May take the listener, which listens if the bootstrap said where.
using Training = std::function<int(const JobPlan&, ControlClient&, TcpListener&)>;

// The whole life of a rank started by dslaunch. Returns the exit code of the process. `failpoints`:
// as in core/status/failpoint.h, empty for none.
int run_session(const Training& training, const std::string& failpoints = "");

}  // namespace ds
