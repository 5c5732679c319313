// Weights of others as a Hugging Face folder: of a checkpoint of DeepSpeed's, of a file of
// PyTorch's or of a folder with either format. Nothing of them is executed, and no more than one
// tensor is in memory at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/files/file.h"
#include "core/values/dtype.h"

namespace ds {

struct Conversion {
  std::string source;
  std::string destination;              // must not be there
  std::optional<std::string> tag{};     // of the source, where it holds several checkpoints
  std::optional<std::string> config{};  // a folder with config.json, or that file; none: beside the
                                        // source
  std::optional<std::string> name_map{};  // a file of rules (train/convert/name_rules.h)
  DType dtype = DType::kF32;              // of the weights that are written
};

struct Converted {
  std::string from;  // the folder or file that was read
  int64_t tensors = 0, numel = 0, bytes = 0;
  std::optional<int64_t> step{};  // of training, where the source says it
  std::string by;                 // what wrote the source, in words
};

// The destination appears whole or not at all. UsageError where it is there; InputMissing for a
// source or config.json that is not; DataError listing the weights that are missing, unknown or of
// another shape than config.json says; else as the readers throw.
Converted convert_to_hf(FileSystem& files, const Conversion& what);

}  // namespace ds
