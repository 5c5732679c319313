// What is wrong with the GPUs that ranks are to have (pure): a part of preflight.h.
#pragma once

#include <vector>

#include "launcher/report/preflight_hosts.h"

namespace ds {

// Judges the GPUs of one host that has answered: whether each slot finds one, and how those are.
void judge_gpus(const PreflightNeeds& needs, const SurveyedHost& host,
                std::vector<Finding>& findings);

// What hosts whose ranks talk by NCCL must have alike.
void judge_nccl(const std::vector<SurveyedHost>& hosts, std::vector<Finding>& findings);

}  // namespace ds
