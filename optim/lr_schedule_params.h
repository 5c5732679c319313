// Scheduler parameters by name: turns the scheduler section's plain values into the option struct
// of its type. Refuses names that the type does not have and values of the wrong kind; the ranges
// are checked where the schedule is built (optim/lr_schedule.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "optim/lr_schedule.h"

namespace ds {

// A JSON value as far as a scheduler parameter can be one; monostate is null.
using ScheduleValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<double>>;
using ScheduleParams = std::map<std::string, ScheduleValue>;

// `type` is case-sensitive. A warm-up shape that is neither "log" nor "linear" means log, as in the
// reference. Throws ConfigError for an unknown type or name, a missing required parameter, or a
// value of the wrong kind.
LrScheduleOptions lr_schedule_options(std::string_view type, const ScheduleParams& params);

// The one rate by which people call a schedule: the lowest of LRRangeTest, the highest of the
// others. Throws ConfigError when it is not among `params`.
PerGroup headline_lr(std::string_view type, const ScheduleParams& params);

}  // namespace ds
