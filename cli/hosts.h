// The options that choose the hosts of a job, and how they are reached.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct HostOptions {
  std::string launcher = "auto";
  std::optional<std::string> hostfile;  // none: kDefaultHostfile where it is
  std::string include;
  std::string exclude;
  std::optional<int> num_nodes;
  std::optional<int> num_gpus;
  std::optional<std::string> master_addr;
  int master_port = 0;  // 0: any free one
  std::string launcher_args;
  std::vector<std::string> environment;  // --env
  std::optional<std::string> environment_file;
  std::optional<int> ssh_port;
  std::optional<int> local_rank;  // what launchers append; the variables say it, too

  bool operator==(const HostOptions&) const = default;
};

// DeepSpeed's spellings, with underscores, are accepted beside ours.
void describe_hosts(VerbApp& app, HostOptions& hosts);

}  // namespace ds
