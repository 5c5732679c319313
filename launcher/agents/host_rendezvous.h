// How the dslaunch that mpirun or srun started on several hosts find each other. The first of all
// listens on addresses of its machine, and writes them with a fresh token into a file of a folder
// that all share (rendezvous_file.h); the first of each other host reads it, dials, sees the
// certificate of the job, shows the token, and becomes that host's agent. Once all have come,
// listener and file are gone. Refuses to know what the job is.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agents/agent.h"
#include "launcher/agents/host_link.h"
#include "launcher/control/job_authority.h"

namespace ds {

struct RendezvousOptions {
  std::filesystem::path file;
  std::vector<std::string> addresses;  // literal, of this machine
  std::shared_ptr<const JobAuthority> authority;
  int processes = 0;  // that have to come or be spoken for: those of other hosts
  std::chrono::seconds limit{60};
  int interrupt_fd = -1;  // readable when the user wants to stop waiting; -1: nobody can
};

// The agents of the other hosts, each ready, by their rank. Throws Error(kClusterUnusable) when
// they have not all come in time, one goes again, or one is of another build; IoError for the file.
std::vector<std::unique_ptr<HostLink>> meet_hosts(const RendezvousOptions& options);

// The other end: serves as agent until the launcher lets it go, and returns the exit code. Throws
// Error(kClusterUnusable) when no launcher was met within `limit`.
int join_rendezvous(const std::filesystem::path& file, const AgentContext& context,
                    const DialledAgent& self, std::chrono::seconds limit);

}  // namespace ds
