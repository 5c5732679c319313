// Which files a DeepSpeed checkpoint is made of, by the names in its folder (pure): those of every
// rank, in order, or why it is not whole or of a layout that is not read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ds::deepspeed {

// Those that ranks with the same part of a model have written, each list by data rank.
struct RankFiles {
  int64_t model_rank = 0;              // in their names, "mp_rank_00"
  std::vector<std::string> model;      // one, or with stage 3 one of each rank
  std::vector<std::string> optimizer;  // none with stage 0, and in a universal folder
};

// Names relative to the folder.
struct FolderFiles {
  // Tensor-parallel ranks, of a pipeline those of each stage behind each other; one at least.
  std::vector<RankFiles> parts;
  // The weights of each layer of a pipeline in order, by tensor-parallel rank.
  std::vector<std::vector<std::string>> layers;
  bool is_universal = false;  // its tensors are in zero/NAME
};

// Whether the names are those of a checkpoint, and not of the folder that holds some.
bool is_checkpoint(std::span<const std::string> names);

// `folder` is its name in messages. InputMissing for a rank's file that is missing between others;
// Unsupported for experts; DataError without any file of a model.
FolderFiles files_of(const std::string& folder, std::span<const std::string> names);

// The files of ranks [0, count) must be there: what partition_count says. InputMissing, naming the
// first one that is not; DataError where there are more.
void require_ranks(const std::string& folder, const RankFiles& files, int64_t count);

// A tag out of `latest`, without the end of the line. DataError for what is no name of one folder.
std::string tag_of(const std::string& path, std::string_view text);

}  // namespace ds::deepspeed
