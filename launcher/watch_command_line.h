// The command lines of the verbs that look at a run: status, top, tail, stack, ctl.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line.h"

namespace ds {

bool is_watch_verb(const std::string& word);
// `arguments` begin with the verb. Throws UsageError.
CommandLine parse_watch(const std::vector<std::string>& arguments);

}  // namespace ds
