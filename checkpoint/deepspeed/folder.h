// A checkpoint of DeepSpeed, open for reading: its parameters whole, one at a time, whatever stage
// of ZeRO and number of ranks wrote it, and how far the run had come. Nothing in the files is
// executed (core/torch/torch_file.h). What tensor-parallel ranks have is joined as their files say;
// where they do not say it, by the cuts of the model that they are of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/folder_files.h"
#include "checkpoint/deepspeed/optimizer_states.h"
#include "checkpoint/deepspeed/pipeline_table.h"
#include "checkpoint/deepspeed/progress.h"
#include "checkpoint/deepspeed/saved_tensors.h"
#include "core/files/file.h"

namespace ds::deepspeed {

// Reading is thread-safe.
class DeepSpeedFolder {
 public:
  // `path`: the folder of a checkpoint, or the one that holds some; then `tag` chooses, and without
  // it `latest` does. InputMissing for what is not there: the tag, `latest`, the file of a rank.
  // DataError for files that do not belong together or are broken, and Unsupported for what is not
  // read; all of them name the file.
  static DeepSpeedFolder open(FileSystem& files, const std::string& path,
                              const std::optional<std::string>& tag = std::nullopt);

  const std::string& directory() const { return directory_; }
  const Progress& progress() const { return table_.progress; }
  const std::vector<SavedParameter>& parameters() const { return table_.parameters; }
  // What Megatron-LM calls so; nothing where no file says it.
  std::optional<double> checkpoint_version() const { return version_; }

  // Whether tensors cannot be read before join(), since no file says how ranks cut them.
  bool needs_cuts() const { return needs_cuts_; }
  // Joins the ranks' parts where needs_cuts(). `cut_of`: of a name in the files; nothing for a
  // tensor that the model has no place for, of which ranks should have the same. DataError naming
  // the tensor where its parts are not of that cut.
  void join(const std::function<std::optional<FamilyCut>(const std::string& name)>& cut_of);

  // What the optimizer keeps of each trained parameter: "exp_avg", "exp_avg_sq". Unsupported where
  // it is there, but cannot be told whose it is.
  std::vector<std::string> slots() const;

  // `slot`: kWeightSlot or one of slots(). DataError for what is not there; Unsupported where
  // needs_cuts().
  const TensorsByName& tensors(const std::string& slot) const;
  const SavedTensor& tensor(const std::string& name, const std::string& slot) const;

 private:
  SavedTable universal(const FileSystem& files, const FolderFiles& names);
  void take_ranks(const FolderFiles& names);
  // What each tensor-parallel rank has, of a pipeline in all stages.
  std::vector<ModelPart> ranks_of(const FolderFiles& names);
  // What ranks with the same part of the model have; its files of the model are opened last.
  SavedTable stage(const RankFiles& names);
  const OpenFiles& open(const std::vector<std::string>& names);

  std::string directory_;
  std::list<OpenFiles> opened_;  // which stay where they are
  SavedTable table_;
  std::vector<ModelPart> unjoined_;  // where needs_cuts()
  bool needs_cuts_ = false;
  std::optional<double> version_{};
};

}  // namespace ds::deepspeed
