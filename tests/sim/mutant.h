// Bugs that can be put back on purpose, each in the layer around the product's code: the simulator
// is worth something only if it finds them.
#pragma once

#include <array>
#include <bitset>
#include <string_view>

namespace ds::sim {

enum class Mutant {
  kSkipFileSync,       // the pieces of a rank are not synced
  kSkipTextSync,       // manifests, epoch and latest are not synced before their rename
  kSkipDirectorySync,  // names are not made durable
  kSkipRootSync,       // the tag's own name is not
  kLateSync,           // files are synced only after the next rename
  kNoFence,            // the recorded epoch is not looked at
  kNoOpenEpoch,        // a new epoch does not shut out the old one
  kSameEpoch,          // a restart does not raise the epoch
  kIgnoreVote,         // a rank that could not write is left out of the commit
  kCommitFirst,        // announced as committed before it is
  kTrustLatest,        // `latest` decides where to resume
  kDeleteFirst,        // old tags are deleted before the new one is committed
  kNoLease,            // silence is not noticed
  kNoHangWatch,        // standing still is not noticed
  kDeafToEnds,         // the end of a process is not noticed
  kForgetLosses,       // lost hosts are planned with again
  kResumeOldest,       // the oldest tag is loaded
  kTornWrite,          // the second half of a write gets lost, and nobody reads it back
  kDeleteNewest,       // retention keeps the wrong end of the list
  kSkipAStep,          // a resumed rank counts the step it resumes from twice
  kNoJoinTimeout,      // a rank that never joins is waited for
  kLeaveOld,           // processes of an epoch that is over are not ended
  kCount
};

constexpr std::array<std::string_view, static_cast<size_t>(Mutant::kCount)> kMutantNames{
    "skip_file_sync",  "skip_text_sync", "skip_directory_sync", "skip_root_sync",
    "late_sync",       "no_fence",       "no_open_epoch",       "same_epoch",
    "ignore_vote",     "commit_first",   "trust_latest",        "delete_first",
    "no_lease",        "no_hang_watch",  "deaf_to_ends",        "forget_losses",
    "resume_oldest",   "torn_write",     "delete_newest",       "skip_a_step",
    "no_join_timeout", "leave_old"};

class MutantSet {
 public:
  void add(Mutant mutant) { set_.set(static_cast<size_t>(mutant)); }
  bool has(Mutant mutant) const { return set_.test(static_cast<size_t>(mutant)); }

 private:
  std::bitset<static_cast<size_t>(Mutant::kCount)> set_;
};

}  // namespace ds::sim
