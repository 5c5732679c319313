// Checkpointing: the engine's state to and from tags on disk. Every rank writes and reads what it owns;
// rank 0 commits. Weights come from the newest committed tag, a Hugging Face folder, or the initialisers.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/format.h"
#include "core/file.h"
#include "rankd/engine.h"
#include "rankd/job.h"

namespace ds {

class Checkpointing {
 public:
  // keep: committed tags to retain, 0 for all.
  Checkpointing(Engine& engine, FileSystem& files, const JobPlan& plan, int64_t keep);

  // Fills the engine as plan.resume says and returns the step to go on from. `folder`: the Hugging Face
  // folder to start from where there is no tag.
  int64_t load(const std::optional<std::string>& folder);
  // All ranks together: writes and commits tag global_step<N>. On return the tag is durable. IoError, on
  // every rank, if any of them could not write; the tags before are untouched.
  SavedTag save();
  // All ranks together: rank 0 writes the last saved tag as a Hugging Face folder. `tokenizer`: as in
  // the configuration; `source`: the Hugging Face folder training started from, whose names are kept.
  void export_model(const std::string& folder, const std::string& tokenizer,
                    const std::optional<std::string>& source);

 private:
  FileVote write_pieces(const std::string& tag);
  std::string commit(const std::string& tag, std::vector<FileVote> votes);
  void tidy_after_commit(const std::string& tag);
  void restore(const std::string& tag);
  void load_folder(const std::string& folder);

  Engine& engine_;
  FileSystem& files_;
  const JobPlan& plan_;
  const std::string root_;
  const int64_t keep_;
  std::string last_tag_;
};

}  // namespace ds
