// What a run would refuse once its ranks plan it: sizes that do not go with each other or with the
// model, patterns that fit nothing, more memory than a limit allows. The rehearsal does what each
// rank does first, on meta tensors, without data. `dslaunch check` and `dslaunch run` ask for it.
#pragma once

#include <vector>

#include "config/config.h"
#include "core/files/file.h"
#include "rankd/verbs/input_defect.h"

namespace ds {

// Whether memory.device_limit and memory.host_limit are held against the plan: not where the ranks
// are fewer than a run will have.
enum class LimitCheck { kNone, kOfPlan };

// The configuration has to be one that was read without errors.
std::vector<InputDefect> rehearse(const Config& config, int ranks, LimitCheck limits,
                                  FileSystem& files);

}  // namespace ds
