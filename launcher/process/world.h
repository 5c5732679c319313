// The processes of one epoch, wherever they run: started together, heard through one set of
// descriptors, ended together. LocalWorld starts them here; other worlds do so through agents on
// hosts.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "core/status/error.h"
#include "launcher/decide/data_plane.h"
#include "launcher/decide/devices/gpu_state.h"
#include "launcher/decide/memory_death.h"
#include "launcher/decide/placement.h"
#include "launcher/decide/text/clock_time.h"
#include "launcher/process/process.h"

namespace ds {

// Who a rank is to the coordinator that it dials: certificates of this epoch alone, PEM.
struct RankCredential {
  std::string ca_certificate;
  std::string certificate;
  std::string private_key;
};

// host -> what its slots add to a rank's environment, "NAME=value"; "" is this machine. By
// RankPlacement::slot; hosts without a say are not in it.
using SlotVariables = std::map<std::string, std::vector<std::vector<std::string>>>;
// Returns the variables of one rank's slot; empty if `slots` does not have that slot.
const std::vector<std::string>& variables_of(const SlotVariables& slots, const RankPlacement& rank);

// One epoch before it starts. The secrets are made anew for each.
struct WorldPlan {
  int64_t epoch = 1;
  std::string claim;  // of the epoch; no other launcher has the same
  std::vector<RankPlacement> ranks;
  std::vector<std::string> tokens;  // one per rank, each good for one join in this epoch
  DataPlane data_plane = DataPlane::kShm;
  Time join_timeout = std::chrono::seconds(60);  // as Membership::Options has it
  std::string shm_name;  // random; names every shared-memory object of the epoch
  // The coordinator listens at these endpoints, one for each address that reach() asked for; ranks
  // address it by this name, and prove with these credentials who they are. All three are empty if
  // ranks inherit their connections.
  std::vector<std::string> coordinator_endpoints;
  std::string coordinator_name;
  std::vector<RankCredential> credentials;

  void forget_credentials();  // and tokens, once the ranks and the coordinator have them
};

// Takes a line for the log of a rank; must not wait.
using RankLog = std::function<void(int rank, std::string_view line)>;

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
  // The process; 0 where it is not known yet.
  virtual int64_t pid_of(int rank) const = 0;
  // What the kernel says about a rank that SIGKILL has just ended.
  virtual MemoryDeath memory_death_of(int rank) const = 0;
  // How its GPU was when somebody looked last, not longer than seconds ago; nothing where it has
  // none, or nobody knows.
  virtual std::optional<GpuState> gpu_of(int rank) const {
    static_cast<void>(rank);
    return std::nullopt;
  }
  // Why the rank's host is lost, empty where it is not: a rank that ended then is gone with it.
  virtual std::string loss_of(int rank) const {
    static_cast<void>(rank);
    return "";
  }
  // Hosts that can no longer be reached, as the plan calls them; the next epoch does without them.
  virtual std::vector<std::string> lost_hosts() { return {}; }
};

// Some hosts of a job cannot be used; the message names all of them, with the reason of each.
class HostsUnusable : public Error {
 public:
  HostsUnusable(const std::string& message, std::vector<std::string> hosts)
      : Error(ExitCode::kClusterUnusable, message), hosts_(std::move(hosts)) {}
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  std::vector<std::string> hosts_;
};

// A host that was looked for.
struct CandidateHost {
  std::string host;
  std::string problem;  // why it cannot be used; empty: it can
};

// Makes the world of each epoch.
class WorldStarter {
 public:
  virtual ~WorldStarter() = default;
  // Makes sure that the hosts of `ranks` can be used, before start(). Returns the addresses of this
  // machine on which the coordinator has to listen for them, each once; none where ranks inherit
  // their connections. Throws HostsUnusable.
  virtual std::vector<std::string> reach(const std::vector<RankPlacement>& ranks) {
    static_cast<void>(ranks);
    return {};
  }
  // Why a host that take_candidates() has found and the others of `ranks` cannot connect to each
  // other; empty: they can. Takes seconds; only while no world runs.
  virtual std::string cut_between(const std::string& host,
                                  const std::vector<RankPlacement>& ranks) {
    static_cast<void>(host);
    static_cast<void>(ranks);
    return "";
  }
  // Begins to reach a host that is in no world now, without waiting.
  virtual void seek(const std::string& host) { static_cast<void>(host); }
  // Those of which something became known since the last call, also that one found before is gone
  // again. To be called every second or two: hosts that wait are kept alive by it.
  virtual std::vector<CandidateHost> take_candidates() { return {}; }
  // Between epochs, every second or two: keeps what the next one needs alive.
  virtual void tend() {}
  virtual void add_poll_descriptors(std::vector<pollfd>& out) const { static_cast<void>(out); }
  // Throws InputMissing, IoError, HostsUnusable.
  virtual std::unique_ptr<World> start(const WorldPlan& plan) = 0;
};

}  // namespace ds
