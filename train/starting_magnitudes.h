// What magnitudes of new adapters (DoRA) begin with: the lengths of the rows of the weights that
// they are beside, so that the model computes what it did.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/families/list.h"
#include "core/files/file.h"
#include "kernels/quantize/block_codes.h"
#include "model/hf/weights.h"

namespace ds {

class StartingMagnitudes {
 public:
  // Those of a model's folder whose weights are kept as `code` says. Throws as HfWeights does.
  StartingMagnitudes(FileSystem& files, const std::string& folder, const ModelConfig& model,
                     std::optional<kernels::BlockCode> code);

  // Fills `range` (flat fp32, on CPU) with elements [begin, begin + range.numel()) of a magnitude
  // as it is here. Reads the whole weight when it is first asked for; not thread-safe.
  void read(const ParamSpec& magnitude, int64_t begin, Tensor& range);

 private:
  const std::vector<float>& lengths_of(const std::string& module);

  std::vector<ParamSpec> specs_;  // of the whole model
  HfWeights weights_;
  bool inputs_first_;
  std::optional<kernels::BlockCode> code_;  // nothing: they are kept as they are
  std::map<std::string, std::vector<float>> lengths_;
};

}  // namespace ds
