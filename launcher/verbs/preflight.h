// `dslaunch preflight`: whether every host of a job is fit for it, all of them at once and
// everything that is wrong with any of them in one report; and the short form of it before every
// run.
#pragma once

#include "launcher/agents/host_survey.h"
#include "launcher/verbs/command_line.h"
#include "launcher/verbs/run.h"

namespace ds {

// Prints the report to standard output; 0 or 69. Throws what the configuration and the host file
// throw.
int run_preflight(const PreflightOptions& options, const CommandContext& context);

// Where a run with these options will lie; it need not be there yet.
std::string future_run_directory(const RunOptions& options);

// The short form: throws HostsUnusable with the report if anything is bad, else returns what is
// worth a note.
std::vector<std::string> refuse_unfit(const PreflightNeeds& needs,
                                      const std::vector<SurveyedHost>& hosts);

}  // namespace ds
