// The stored tensors of a Hugging Face folder by their names, in whichever format it has them:
// safetensors where there are such, else PyTorch's own files (model/hf/torch_weights.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/files/file.h"
#include "model/hf/safetensors.h"
#include "model/hf/stored_tensors.h"
#include "model/hf/torch_weights.h"

namespace ds {

class WeightFolder {
 public:
  // Tensors of a format that higher layers read.
  static WeightFolder of(std::shared_ptr<const StoredTensors> tensors) {
    return WeightFolder(Stored(std::move(tensors)));
  }
  static bool exists(const FileSystem& file_system, const std::string& folder);
  // A folder, or the path of one file of weights. InputMissing where there are none, else as
  // SafetensorsFolder::open and TorchWeights::open throw.
  static WeightFolder open(FileSystem& file_system, const std::string& path);

  std::vector<std::string> names() const;                      // sorted
  const SafetensorsInfo& info(const std::string& name) const;  // DataError for an unknown name
  // Part of a tensor: `into` is filled from byte `offset` of its data. Thread-safe.
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const;

 private:
  using Stored =
      std::variant<SafetensorsFolder, TorchWeights, std::shared_ptr<const StoredTensors>>;
  explicit WeightFolder(Stored stored) : stored_(std::move(stored)) {}
  Stored stored_;
};

}  // namespace ds
