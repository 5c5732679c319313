// `dslaunch agent`: the launcher's hand on one host. It starts the host's ranks when told to,
// passes on what they say, and outlives none of its reasons to be there: when its input ends, when
// the launcher falls silent, or at SIGTERM, it kills its ranks, removes their shared memory and
// ends. Refuses to decide anything; it opens no port.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agents/host_leader.h"
#include "launcher/control/byte_channel.h"
#include "launcher/decide/devices/device_choice.h"

namespace ds {

struct AgentContext {
  std::vector<std::string> environment;  // "NAME=value", what ranks get on this host
  std::string address;                   // by which this host was reached, where ssh told us
  VisibleGpus gpus;
  bool heeds_signals =
      true;  // no: whoever sends them sends them to the launcher as well, who decides
};

// For an agent that was not started by its launcher, but beside it, and dialled it.
struct DialledAgent {
  int start_rank = 0;            // which of the many dslaunch of the job it is
  std::string host;              // as their starter calls this host
  std::vector<SlotShare> slots;  // of this host, in order
};

// Speaks agent.proto on standard input and output until the end. Returns the exit code. Throws
// UsageError where no launcher is at the other end.
int run_agent(const AgentContext& context);

// The same for one that dialled, which says `token` first; it is wiped once the launcher answers.
// nullopt: whoever listened was not the launcher. Otherwise the exit code that the launcher told
// it, or kClusterUnusable when the launcher was lost.
std::optional<int> run_dialled_agent(const AgentContext& context, const DialledAgent& dialled,
                                     ByteChannel& channel, std::string& token);

}  // namespace ds
