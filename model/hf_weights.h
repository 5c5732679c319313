// Weights of a Hugging Face folder as parameters of ours: which stored tensor each parameter is, with
// every name, shape and dtype checked before the first byte is read; then any flat range of any
// parameter, so that a rank reads only the bytes it owns.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "model/hf_safetensors.h"
#include "model/model_config.h"
#include "model/param.h"

namespace ds {

// The model of a folder: its config.json, whose number of layers is compared with the headers of the weights beside
// it before anybody builds a table of parameters by it. A folder without weights is its config.json alone. DataError
// where they differ; else as read_hf_config and SafetensorsFolder::open throw.
ModelConfig read_hf_model(FileSystem& file_system, const std::string& folder);

class HfWeights {
 public:
  // `specs`: every parameter of the model (make_model), in order. Stored names may lack the leading
  // "transformer." or "model." (exports of the headless model). Stored but ignored: buffers that old
  // exports carry (attention masks, rotary frequencies), and lm_head.weight where it is tied. DataError
  // lists what is missing, has another shape, or is stored and unknown.
  HfWeights(FileSystem& file_system, const std::string& folder, std::span<const ParamSpec> specs);

  // Fills `range` (flat, on CPU; fp32, bf16 or fp16) with elements [begin, begin + range.numel()) of
  // parameter `index` of `specs`, converted from the stored dtype. Thread-safe.
  void read(size_t index, int64_t begin, Tensor& range) const;
  // The folder's own name for parameter `index`: an export keeps it.
  const std::string& stored_name(size_t index) const { return stored_names_[index]; }
  // Bytes of the stored tensors that parameters come from.
  int64_t bytes() const;

 private:
  SafetensorsFolder folder_;
  std::vector<std::string> stored_names_;  // by parameter
};

std::vector<ParamSpec> specs_of(const ParameterStore& store);

// What a folder for export holds: each parameter's name, shape and `dtype`, for SafetensorsWriter. A
// tied head is left out, as transformers does.
std::vector<SafetensorsTensor> export_list(std::span<const ParamSpec> specs, DType dtype);

}  // namespace ds
