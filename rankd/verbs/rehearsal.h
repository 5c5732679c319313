// What a run would refuse once its ranks plan it: sizes that do not go with each other or with the
// model, patterns that fit nothing, more memory than a limit allows. The rehearsal does what each
// rank does first, on meta tensors, without data. `dslaunch check` asks for it.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "core/files/file.h"
#include "rankd/verbs/look.h"

namespace ds {

// Whether memory.device_limit and memory.host_limit are held against the plan: not where the ranks
// are fewer than a run will have.
enum class LimitCheck { kNone, kOfPlan };

// The configuration has to be one that was read without errors.
InputFindings rehearse(const Config& config, int ranks, LimitCheck limits, FileSystem& files);

struct RehearsalArgs {
  int ranks = 1;
  LimitCheck limits = LimitCheck::kNone;
  std::string config_path;             // or base64
  std::vector<std::string> overrides;  // key.path=value
};

// The question --rehearse: prints the findings as --look does.
int run_rehearsal(const RehearsalArgs& args);

}  // namespace ds
