// The processes of one epoch, wherever they run: started together, heard through one set of
// descriptors, ended together. LocalWorld starts them here; other worlds do so through agents on hosts.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/fd.h"
#include "launcher/process.h"

namespace ds {

// Where one rank of an epoch runs. Ranks of one host are numbered consecutively.
struct RankPlacement {
  std::string host;  // as the hostfile calls it; empty: this machine
  int local_rank = 0;
  int local_size = 1;
  int64_t slot = 0;  // the host's device or CPU slot
};

// One epoch before it starts. The secrets are made anew for each.
struct WorldPlan {
  int64_t epoch = 1;
  std::vector<RankPlacement> ranks;
  std::vector<std::string> tokens;  // one per rank, each good for one join in this epoch
  std::string rendezvous;           // random; names every shared-memory object of the epoch
};

class World {
 public:
  using RankSink = std::function<void(int rank, std::string_view line)>;

  virtual ~World() = default;  // kills and reaps what is left
  virtual int size() const = 0;
  // The process and where it is, for logs: "pid 123", "pid 123 on node-1".
  virtual std::string describe(int rank) const = 0;
  // Our ends of control sockets that ranks inherited; empty where ranks dial the coordinator.
  virtual std::vector<Fd> take_connections() = 0;

  virtual void add_poll_descriptors(std::vector<pollfd>& out) const = 0;
  // Reads what there is; each line goes to the rank's log and to `sink`.
  virtual void pump(const RankSink& sink) = 0;
  // The rank's end the first time it is seen, after its last output was pumped.
  virtual std::optional<ExitStatus> newly_ended(int rank, const RankSink& sink) = 0;
  virtual void kill_all() = 0;
  // Hosts that can no longer be reached, as the plan calls them; the next epoch does without them.
  virtual std::vector<std::string> lost_hosts() const { return {}; }
};

// Makes the world of each epoch.
class WorldStarter {
 public:
  virtual ~WorldStarter() = default;
  // Throws InputMissing, IoError, Error(kClusterUnusable) naming every host that failed.
  virtual std::unique_ptr<World> start(const WorldPlan& plan) = 0;
};

}  // namespace ds
