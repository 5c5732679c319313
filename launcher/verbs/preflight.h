// `dslaunch preflight`: whether every host of a job is fit for it, all of them at once and
// everything that is wrong with any of them in one report; and the short form of it before every
// run.
#pragma once

#include "launcher/agents/host_survey.h"
#include "launcher/run/supervisor.h"
#include "launcher/verbs/command_context.h"
#include "launcher/verbs/command_line.h"

namespace ds {

// Prints the report to standard output; 0 or 69. Throws what the configuration and the host file
// throw.
int run_preflight(const PreflightOptions& options, const CommandContext& context);

// Returns where a run with these options will lie; it need not be there yet.
std::string future_run_directory(const RunOptions& options);

// The short form: throws HostsUnusable with the report if anything is bad, else returns what is
// worth a note.
std::vector<std::string> refuse_unfit(const PreflightNeeds& needs,
                                      const std::vector<SurveyedHost>& hosts);

// Before a run on this machine alone. Throws as refuse_unfit().
void require_fit_machine(const TrainingJob& job, const RunOptions& options,
                         const std::vector<RankPlacement>& world, const CommandContext& context);

struct FitHosts {
  std::vector<std::string> notes;  // what is worth one
  int64_t newest_epoch = 0;        // in the run directory, which each of them may have for itself
};
// The same of hosts that were reached. Hosts that hold no rank yet, the spares, are looked at when
// they do.
FitHosts require_fit_hosts(const TrainingJob& job, const RunOptions& options,
                           const std::vector<RankPlacement>& world,
                           const std::vector<ReachedHost>& reached, const std::string& program);

}  // namespace ds
