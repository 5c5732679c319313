// `dslaunch agent`: the launcher's hand on one host. It starts the host's ranks when told to, passes
// on what they say, and outlives none of its reasons to be there: when its standard input ends, when
// the launcher falls silent, or at SIGTERM, it kills its ranks, removes their shared memory and ends.
// Refuses to decide anything; it opens no port.
#pragma once

#include <string>
#include <vector>

namespace ds {

struct AgentSurroundings {
  std::vector<std::string> environment;  // "NAME=value", what ranks get on this host
  std::string address;                   // by which this host was reached, where ssh told us
  int gpus = 0;
};

// Speaks agent.proto on standard input and output until the end. Returns the exit code. Throws
// UsageError where no launcher is at the other end.
int run_agent(const AgentSurroundings& surroundings);

}  // namespace ds
