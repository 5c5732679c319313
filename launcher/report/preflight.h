// Whether hosts are fit for a job (pure): what was measured on each goes in, everything that is
// wrong with any of them comes out, with what to do about it. Measuring is
// launcher/agents/host_probe.h, asking hosts is launcher/agents/host_survey.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/preflight_hosts.h"

namespace ds {

// From one question and its answer, as NTP does it: sent and received here, asked and answered
// there.
ClockOffset clock_offset(int64_t sent_us, int64_t asked_us, int64_t answered_us,
                         int64_t received_us);

// Why state cannot be swapped into a folder that a configuration names.
struct SwapFolderDefect {
  std::string what;  // "/nvme/me is not there"
  std::string fix;
};
std::optional<SwapFolderDefect> swap_folder_defect(const agent::PathFacts& folder);

// In the order of the hosts. The launcher's own machine is judged like any other where it is among
// them.
std::vector<Finding> judge_hosts(const PreflightNeeds& needs,
                                 const std::vector<SurveyedHost>& hosts);
bool any_bad(const std::vector<Finding>& findings);

// The report: a headline, then each host that is not well with all that was found.
std::string preflight_text(const std::vector<SurveyedHost>& hosts,
                           const std::vector<Finding>& findings);
// One object, one line, for programs.
std::string preflight_json(const std::vector<SurveyedHost>& hosts,
                           const std::vector<Finding>& findings);

}  // namespace ds
