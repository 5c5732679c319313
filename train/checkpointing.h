// Checkpointing: the engine's state to and from tags on disk. Every rank writes and reads what it
// owns; rank 0 commits, or one rank of each host where each keeps its own files
// (checkpoint/hosts/distributed_tags.h). Weights come from the newest of committed tags and states
// in memory (train/memory_tier.h), a checkpoint of DeepSpeed, a Hugging Face folder, or the
// initialisers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/hosts/distributed_tags.h"
#include "core/files/file.h"
#include "train/engine_pieces.h"
#include "train/memory_tier.h"
#include "train/model_folder.h"
#include "train/settings/job.h"
#include "train/settings/resume_facts.h"

namespace ds {

// kEachHost: every host has a disk of its own under the run directory's path.
enum class TagStorage { kShared, kEachHost };

class Checkpointing {
 public:
  struct Options {
    int64_t keep = 0;              // committed tags to retain, 0 for all
    MemoryTier* memory = nullptr;  // null without
    // Whether ranks that are about to save under different tags may.
    TagAgreement tags = TagAgreement::kWarn;
    TagStorage storage = TagStorage::kShared;
    std::optional<RunFacts> facts{};  // rank 0: of this run; without, nothing is compared
    // A checkpoint of DeepSpeed, with which training begins (train/beginning.h).
    std::optional<std::string> resume_from{};
  };
  Checkpointing(Engine& engine, FileSystem& files, const JobPlan& plan, const Options& options);

  // Fills the engine as plan.resume says and returns the step to go on from. `folder`: the Hugging
  // Face folder to start from where there is no tag, and no checkpoint of DeepSpeed is named.
  // ValidationError on all ranks alike: if what is there cannot be loaded, or is of another model
  // or, without plan.accept_changes, of another run; if a newer state is lost and resuming is
  // required; if there are traces of progress, but nothing to go on from.
  int64_t load(const std::optional<std::string>& folder);
  // Rank 0: what the user should know about where load() took the state from: "resumed step=7
  // from=memory", and everything newer that it could not take.
  const std::vector<std::string>& notices() const { return notices_; }
  // Rank 0: goes with every tag from now on; and what came with the state that load() took
  // (train/measure/step_note.h).
  void set_note(std::string note) { notes_.steps = std::move(note); }
  const std::string& restored_note() const { return restored_.steps; }
  // The same of the best evaluation (train/watch/best_evaluation.h).
  void set_best(std::string best) { notes_.best = std::move(best); }
  const std::string& restored_best() const { return restored_.best; }
  // All ranks together: writes and commits tag global_step<N>. On return the tag is durable.
  // IoError, on every rank, if any of them could not write; the tags before are untouched.
  // ValidationError, on every rank, if the ranks disagree about N and must not, or if a number that
  // any of them has to save is not finite: nothing is saved then.
  SavedTag save();
  // Keeps a tag, of those that load() found or the last one saved, whatever comes after it, and
  // exports it in place of the last one. False, and nothing is kept: there is no such tag.
  bool keep_always(const std::string& tag);
  // All ranks together: rank 0 writes the tag that is kept always, or else the last saved one, as a
  // Hugging Face folder. `frame`: rank 0's counts. If the tag kept always is damaged, the result
  // says how, and the last one is written; "": it is not. IoError or ValidationError on every rank,
  // as write_model_folder throws.
  std::string export_model(const std::string& folder, const FolderFrame& frame);
  bool keeps_always() const { return always_.has_value(); }

 private:
  void compare_tags(const std::string& tag);
  FileVote write_own(const std::string& tag);
  void open_root();
  void commit_from_rank_0(const std::string& tag, std::string error, std::vector<FileVote> votes);
  std::string commit(const std::string& tag, std::vector<FileVote> votes);
  void tidy_after_commit(const std::string& tag);
  bool take_set(const WholeSet& set);  // false if it cannot be used
  bool take_tag(const ds::CommittedTag& tag, std::vector<RejectedTag>& refused);
  std::optional<int64_t> take_newest(std::vector<RejectedTag>& refused);
  void candidates();
  Resumable from_rank_0(const TagList& mine, const ResumeWish& wish);
  void require_newest(int64_t step, const std::vector<RejectedTag>& refused) const;
  void report_origin(int64_t step, const std::vector<RejectedTag>& refused);
  [[noreturn]] void refuse_to_begin(const std::vector<RejectedTag>& refused) const;
  void read_tag(const ds::CommittedTag& tag);
  void fill_frozen(const CheckpointReader& reader, const std::string& label);
  void judge(const CheckpointReader& reader, const std::string& label);
  void throw_refusal() const;
  void note_lost(const std::string& label, const std::string& lost);
  void settle(const WholeSet* set, const ds::CommittedTag* tag);
  TagsToKeep tags_to_keep() const {
    return {options_.keep, always_ ? always_->tag : std::string()};
  }
  std::string drop_damaged();
  void name_origin(const ds::CommittedTag& tag);
  void withdraw(const std::string& tag);
  void require_wish() const;
  std::string origin_note(int64_t step) const;
  int64_t begin_anew(const std::optional<std::string>& folder);

  Engine& engine_;
  FileSystem& files_;
  const JobPlan& plan_;
  const std::string root_;
  const Options options_;
  MemoryTier* const memory_;                    // not owned, may be null
  std::optional<DistributedTags> distributed_;  // where each host keeps its own files
  std::optional<std::string> folder_;           // that load() was given
  Resumable found_;                             // before load()
  MemoryTier::Found kept_;                      //
  std::string refusal_;                         // why what is being loaded or exported may not be
  std::string origin_;                          // what load() took
  std::string saved_at_;                        // when it was saved, in words
  std::vector<std::string> notices_;
  RunNotes notes_, restored_;
  int64_t begun_in_ = 0;         // the epoch that began this line of training
  std::vector<Ancestor> after_;  // what led to it
  ds::CommittedTag last_;
  std::optional<ds::CommittedTag> always_;  // kept whatever comes
};

}  // namespace ds
