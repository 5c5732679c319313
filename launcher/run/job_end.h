// When the batch system ends this job: Slurm says it in the environment (SLURM_JOB_END_TIME) or
// through squeue. Refuses to do anything about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/text/clock_time.h"

namespace ds {

struct TimeLeft {
  std::optional<Time> left;  // none: it may run as long as it likes, or nobody knows
  std::string note;          // for the user, where something was asked and did not answer
};

// `unix_seconds` is now. Asks squeue, found on `path`, for at most 5 s where the environment names
// a Slurm job and not its end.
TimeLeft slurm_time_left(const std::vector<std::string>& environment, int64_t unix_seconds);

}  // namespace ds
