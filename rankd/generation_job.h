// Generation as one rank of a job: the entry that rankd calls once it has joined one whose plan has
// a GenerationOrder.
#pragma once

#include "comm/tcp/comm.h"
#include "rankd/control/control_client.h"
#include "train/settings/job.h"

namespace ds {

// Its rank is a stage of the model. Rank 0 reports what is printed. Returns the exit code of the
// process; throws an Error, which the caller reports.
int run_generation(const JobPlan& plan, ControlClient& control, TcpListener& listener);

// The question --look-generation ORDER RANKS: prints what is wrong with the GenerationOrder in that
// file, as --look does, before anything is started or any weight read.
int look_at_generation(const std::string& order_file, int ranks);

}  // namespace ds
