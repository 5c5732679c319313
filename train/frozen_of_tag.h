// The frozen weights that a checkpoint of adapters is without, from the folder of their model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "config/families/list.h"
#include "core/files/file.h"
#include "model/hf/weights.h"
#include "model/pass/param.h"

namespace ds {

class FrozenOfTag {
 public:
  struct Place {
    std::string tag;
    std::optional<std::string> folder;  // that the run of the tag has as model.folder
  };
  // Opens the folder if the checkpoint needs it. InputMissing, with both, where it is not there;
  // ValidationError where its weights are others than those that were trained beside; else as the
  // readers of folders throw.
  FrozenOfTag(FileSystem& files, const CheckpointReader& reader, const ModelConfig& model,
              const Place& place);

  // Whether the checkpoint is without the parameter, so that it is read here.
  bool has(const std::string& parameter) const;
  // Fills `range` (flat, on the CPU) from element `begin` of the parameter on. Thread-safe.
  void read(const std::string& parameter, int64_t begin, Tensor& range) const;

 private:
  size_t index_of(const std::string& parameter) const;

  std::vector<ParamSpec> specs_;
  std::optional<HfWeights> weights_{};  // nothing: the checkpoint has all
};

}  // namespace ds
