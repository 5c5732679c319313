// The stored tensors of a Hugging Face folder by their names, in whichever format it has them:
// safetensors where there are such, else PyTorch's own files (model/hf/torch_weights.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "model/hf/stored_tensors.h"

namespace ds {

class WeightFolder {
 public:
  // Tensors of a format that higher layers read.
  explicit WeightFolder(std::shared_ptr<const StoredTensors> tensors)
      : tensors_(std::move(tensors)) {}
  static bool exists(const FileSystem& file_system, const std::string& folder);
  // A folder, or the path of one file of weights. InputMissing where there are none, else as
  // SafetensorsFolder::open and TorchWeights::open throw.
  static WeightFolder open(FileSystem& file_system, const std::string& path);

  std::vector<std::string> names() const { return tensors_->names(); }  // sorted
  std::vector<std::string> notes() const { return tensors_->notes(); }
  // DataError for an unknown name.
  const SafetensorsInfo& info(const std::string& name) const { return tensors_->info(name); }
  // Part of a tensor: `into` is filled from byte `offset` of its data. Thread-safe.
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const {
    tensors_->read_part(name, offset, into);
  }

 private:
  std::shared_ptr<const StoredTensors> tensors_;
};

}  // namespace ds
