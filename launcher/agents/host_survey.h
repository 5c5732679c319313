// Asks hosts what they are like, all at once, over the connections of their agents, and this
// machine by the same measurements. Judges nothing (launcher/report/preflight.h does).
#pragma once

#include <string>
#include <vector>

#include "launcher/agents/host_agents.h"
#include "launcher/report/preflight.h"

namespace ds {

enum class SurveyDepth {
  kLaunch,  // one question: before every run
  kFull,    // also whether every host can connect to every other and to us
};

struct SurveyOrders {
  std::string directory;                // of the run, absolute
  std::vector<std::string> nvme_paths;  // that the configuration names
  std::string program;                  // of the ranks
  SurveyDepth depth = SurveyDepth::kLaunch;
  int coordinator_port = 0;  // where the hosts will dial us; 0: any
};

// In the order of `hosts`. A host that does not answer within some seconds has a problem, nothing
// is thrown for it. For the time of the survey there are some small files beside the run directory.
std::vector<SurveyedHost> survey_hosts(const SlotMap& hosts, const HostAgents::Outcome& reached,
                                       const SurveyOrders& orders);

SurveyedHost survey_this_machine(HostSlots host, VisibleGpus gpus, const SurveyOrders& orders);

}  // namespace ds
