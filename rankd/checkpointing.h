// Checkpointing: the engine's state to and from tags on disk. Every rank writes and reads what it owns;
// rank 0 commits, or one rank of each host where each keeps its own files (rankd/spread_tags.h). Weights come from the newest of committed tags and states in memory
// (rankd/memory_tier.h), a Hugging Face folder, or the initialisers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "core/file.h"
#include "rankd/engine.h"
#include "rankd/job.h"
#include "rankd/memory_tier.h"
#include "rankd/spread_tags.h"

namespace ds {

// kEachHost: every host has a disk of its own under the run directory's path.
enum class TagStorage { kShared, kEachHost };

class Checkpointing {
 public:
  // keep: committed tags to retain, 0 for all. memory: null without. tags: whether ranks that are about to
  // save under different tags may.
  Checkpointing(Engine& engine, FileSystem& files, const JobPlan& plan, int64_t keep,
                MemoryTier* memory = nullptr, TagAgreement tags = TagAgreement::kWarn,
                TagStorage storage = TagStorage::kShared);

  // Fills the engine as plan.resume says and returns the step to go on from. `folder`: the Hugging Face
  // folder to start from where there is no tag.
  int64_t load(const std::optional<std::string>& folder);
  // A line about where load() took the state from, if memory held any or a newer tag is not whole any more:
  // "resumed step=7 from=memory".
  std::optional<std::string> resumed(int64_t step) const;
  // All ranks together: writes and commits tag global_step<N>. On return the tag is durable. IoError, on
  // every rank, if any of them could not write; the tags before are untouched. ValidationError, before
  // anything is written, if the ranks disagree about N and must not.
  SavedTag save();
  // All ranks together: rank 0 writes the last saved tag as a Hugging Face folder. `tokenizer`: as in
  // the configuration; `source`: the Hugging Face folder training started from, whose names are kept.
  void export_model(const std::string& folder, const std::string& tokenizer,
                    const std::optional<std::string>& source);

 private:
  void compare_tags(const std::string& tag);
  FileVote write_own(const std::string& tag);
  void open_root();
  void commit_from_rank_0(const std::string& tag, std::string error, std::vector<FileVote> votes);
  std::string commit(const std::string& tag, std::vector<FileVote> votes);
  void tidy_after_commit(const std::string& tag);
  bool take_set(const WholeSet& set);  // false if it cannot be used
  bool take_tag(const ds::CommittedTag& tag, std::vector<std::string>& refused);
  TagList candidates();
  void read_tag(const ds::CommittedTag& tag);
  void settle(const WholeSet* set, const ds::CommittedTag* tag);
  void begin_anew(const std::optional<std::string>& folder);
  void load_folder(const std::string& folder);

  Engine& engine_;
  FileSystem& files_;
  const JobPlan& plan_;
  const std::string root_;
  const int64_t keep_;
  MemoryTier* const memory_;  // not owned, may be null
  const TagAgreement tags_;
  std::optional<SpreadTags> spread_;  // where each host keeps its own files
  std::optional<SpreadTags::Broken> broken_;  // before load()
  MemoryTier::Found kept_;    // before load()
  std::string origin_;        // what load() took
  int64_t begun_in_ = 0;      // the epoch that began this training
  ds::CommittedTag last_;
};

}  // namespace ds
