// The state of the world in the memory of its hosts (train.save_in_memory_every,
// copy_in_memory_every): now and then each rank writes its pieces into its host's memory
// (checkpoint/hosts/checkpoint_memory.h), and less often also into that of another host, over a
// host end of its own. A lost process then costs the steps since the last such save, a lost host
// those since the last copy; no disk is touched. The bytes are those of a pieces file on disk, so a
// set can be loaded by any number of ranks, on any hosts that together keep all of it.
//
// Collective: all ranks of the exchange call alike. Refuses to choose between memory and disk.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/hosts/checkpoint_memory.h"
#include "checkpoint/hosts/distributed_sets.h"
#include "train/engine_pieces.h"
#include "train/settings/job.h"

namespace ds {

class MemoryTier {
 public:
  // `exchange`: of all ranks, for this alone. Unsupported if nobody holds memory for this rank.
  MemoryTier(Engine& engine, const JobPlan& plan, HostExchange& exchange);

  enum class Replica { kOwnHost, kPeerHost };
  // Keeps the state as it is now, also on another host if that is wanted and there is one. The two
  // kinds have places of their own, so the newest state with copies stays until the next one with
  // copies. Between two saves the ranks must have made a step together. IoError on every rank if
  // one of them could not; what was kept before stays whole. ValidationError on every rank if a
  // number of one of them is not finite. A copy that cannot be taken here is a warning.
  void save(Replica replica);
  // Rank 0's, kept with the states saved from now on.
  void set_note(std::string note) { notes_.steps = std::move(note); }
  void set_best(std::string best) { notes_.best = std::move(best); }  // of the best evaluation

  struct Found {
    std::vector<WholeSet> whole;    // newest first
    std::optional<int64_t> newest;  // step of which anything is kept
  };
  const Found& find();
  // Fills the engine's shards. IoError on every rank if one of them cannot; then they must not be
  // used.
  void restore(const WholeSet& set);
  const RunNotes& restored_notes() const { return restored_notes_; }  // that were kept with it
  const std::vector<Ancestor>& restored_after() const { return restored_after_; }  // likewise
  const std::string& lost() const { return lost_; }  // what could not be gone on with, in words
  // Whether there is anything new to keep: the last step has changed the weights.
  bool is_progress() const { return !engine_.skipped_last(); }
  // Training, whose line began in that epoch, goes on from `from`, one of those found (null: from
  // elsewhere): gives back the memory of all that is newer or not whole (null: of everything).
  void settle(const WholeSet* from, int64_t begun_in, const std::vector<Ancestor>& after);

 private:
  size_t kind_of(Replica replica) const;  // of save
  FileVote write_own(int buffer);
  void send_copy(const PeerCopy& copy, int buffer, const Manifest& manifest);
  void take_copy(const PeerCopy& copy, int buffer, const Manifest& manifest);
  void sweep();

  Engine& engine_;
  const JobPlan& plan_;
  HostExchange& exchange_;
  CheckpointMemory memory_;
  DistributedSets sets_;
  std::vector<PeerCopy> copies_;  // of all ranks
  std::vector<std::byte> chunk_;  // what is under way between memory and peer
  Found found_;
  RunNotes notes_, restored_notes_;
  std::string lost_;
  int64_t begun_in_ = 0;  // the epoch that began the line of training
  std::vector<Ancestor> after_, restored_after_;
  std::array<int, 2> next_buffer_{};  // of each kind, 0 or 1
  enum class Leftovers { kNeeded, kSuperseded, kSwept } leftovers_ = Leftovers::kNeeded;
};

}  // namespace ds
