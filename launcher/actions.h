// What dslaunch does for each verb of cli/table/verb_table.cpp: one row of a table per verb.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "launcher/verbs/run.h"

namespace ds {

using Action = std::function<int(const CommandContext&)>;  // returns the exit code

// Whether the verb starts the ranks of a job, which mpirun and srun may have started one by one.
bool starts_ranks(const ParsedVerb& parsed);

// What to do for a verb that was parsed from `arguments`. Throws UsageError where its values do not
// fit together.
Action action_for(const ParsedVerb& parsed, const std::vector<std::string>& arguments);

}  // namespace ds
