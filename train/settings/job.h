// What one rank is told and what it tells: plain values between the training code and the control
// connection (control_client.h). Nothing here knows gRPC, protobuf or the launcher.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/training.h"
#include "core/values/device.h"
#include "core/values/step_metrics.h"

namespace ds {

// The part of one rank in one epoch. The same plan reaches every rank but for rank and local_rank.
struct JobPlan {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this machine
  int local_size = 1;
  int64_t epoch = 1;        // incarnation of the world; goes into every file and collective
  std::string claim;        // the launcher's word for it, which no other launcher's epoch has
  int threads = 1;          // CPU threads this rank may use
  Device device{};          // where it computes; of GPUs it sees its own alone, as cuda:0
  std::string config_text;  // canonical JSON of the resolved train.json
  std::string config_dir;   // absolute; relative paths inside the config start here
  std::string run_dir;      // absolute
  ResumeMode resume = ResumeMode::kAuto;  // of config/sections/training.h
  // The checkpoint to go on from, by its name; empty: the newest. What the launch has made since
  // comes before it.
  std::string resume_tag;
  int64_t oldest_tag_epoch = 0;  // tags of older epochs are passed over, but for that one
  // What is known to have been committed in the run directory: of which step (0: nothing is known
  // of), by whom.
  int64_t committed_step = 0;
  std::string committed_by;
  // Why nobody may begin at step 0 here although no checkpoint is found; empty: nothing speaks
  // against it.
  std::string progress;
  // Go on from a checkpoint that was made with other data, seed or batch sizes.
  bool accept_changes = false;
  int64_t told_step = 0;       // the newest of which the launcher has the metrics; 0: none
  bool audit_samples = false;  // train/watch/sample_audit.h
  // The GenerationOrder of proto/control.proto, for ranks that continue prompts; empty: they train.
  std::string generation;
  // Over what ranks exchange tensors: "shm", "tcp" or "mpi" (comm/connect.h).
  std::string backend = "shm";
  // Random, unguessable, the same on all ranks of the epoch. Shared-memory objects are named
  // "/" + rendezvous + anything, so that the launcher can remove what a killed rank left behind.
  std::string shm_name;
  struct Tcp {
    std::vector<std::string> endpoints;  // of every rank for data, in rank order
    std::string secret;                  // of the epoch
  } tcp{};                               // for the backend of that name
  int memory_fd = -1;  // what the host keeps states in over epochs, inherited; -1: nothing
};

// The newest collective of this rank, as its ledger has it.
struct CollectiveMark {
  uint64_t number = 0;  // over all groups, from 1; 0: none yet
  std::string group;
  uint64_t sequence = 0;
  std::string op;
  bool inside = false;
};

// Progress says where a rank is; it is sent with every heartbeat.
struct Progress {
  int64_t step = 0;        // optimizer steps done
  int64_t micro_step = 0;  // micro-steps done inside the running step
  std::string phase;       // "load", "train", "evaluate", "save", ...
  int64_t total = 0;       // what `micro_step` comes to by the end of the phase; 0: not known
};

// A checkpoint tag whose manifest is on the disk.
struct SavedTag {
  std::string tag;
  int64_t step = 0;
  double seconds = 0;  // that saving took
};

// What the rank measured; the fields of a plan's ranks[] entry (docs/run-directory.md).
struct Measured {
  int64_t steps = 0;
  int64_t device_bytes_peak = 0;
  int64_t host_bytes_peak = 0;
  int64_t nvme_bytes = 0;
  int64_t rss_bytes_peak = 0;
  std::map<std::string, int64_t> categories;  // parameters, gradients, optimizer, activations, ...
  // What the run came to: "validation_loss", "validation_bits_per_byte", "seconds_per_step",
  // "seconds_per_memory_save" (part of the former),
  // "wire_bytes.<axis>.<collective>" per step, where the host end counts like an axis, "host".
  std::map<std::string, double> results{};
};

// Whose fault an error is, so that the launcher can tell the root cause from its echoes.
enum class ErrorOrigin {
  kNone,  // no error
  kOwn,   // this rank's
  kPeer,  // seen here, but another rank's: a CommError
};

enum class Command {
  kStopAndSave,  // finish the running step, save, return ExitCode::kRequeue
  kSaveNow,      // save at the next step edge and go on
  kPause,        // wait at the next step edge
  kResume,       // go on from a pause
  kTrace,        // as the TraceOrder with it says
};

struct TraceOrder {
  int64_t steps = 0;       // from the next step on; 0: what is recorded ends at this edge
  std::vector<int> ranks;  // who records
  bool is_for(int rank) const { return std::ranges::find(ranks, rank) != ranks.end(); }
};

}  // namespace ds
