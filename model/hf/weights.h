// Weights of a Hugging Face folder as parameters of ours: which stored tensor each parameter is,
// with every name, shape and dtype checked before the first byte is read; then any flat range of
// any parameter, so that a rank reads only the bytes it owns.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/families/list.h"
#include "core/device/tensor.h"
#include "model/hf/safetensors.h"
#include "model/pass/param.h"

namespace ds {

// The model of a folder: its config.json, whose number of layers is compared with the headers of
// the weights beside it before anybody builds a table of parameters by it. A folder without weights
// is its config.json alone. DataError where they differ; else as read_hf_config and
// SafetensorsFolder::open throw.
ModelConfig read_hf_model(FileSystem& file_system, const std::string& folder);

bool has_hf_weights(FileSystem& file_system, const std::string& folder);

class HfWeights {
 public:
  // `specs`: every parameter of the model (make_model), in order. Stored names may lack the leading
  // "transformer." or "model." (exports of the headless model). Stored but ignored: buffers that
  // old exports carry (attention masks, rotary frequencies), and lm_head.weight where it is tied
  // and equal to the embeddings. DataError lists what is missing, has another shape, or is stored
  // and unknown.
  HfWeights(FileSystem& file_system, const std::string& folder, std::span<const ParamSpec> specs);

  // Fills `range` (flat, on CPU; fp32, bf16 or fp16) with elements [begin, begin + range.numel())
  // of parameter `index` of `specs`, converted from the stored dtype; of one that is cut, elements
  // of what is here, and no others are read. DataError where these are tied embeddings and the
  // stored lm_head.weight has other values there. Thread-safe.
  void read(size_t index, int64_t begin, Tensor& range) const;
  // The folder's own name for parameter `index`: an export keeps it.
  const std::string& stored_name(size_t index) const { return stored_names_[index]; }
  // Bytes of the stored tensors that parameters come from.
  int64_t bytes() const;

 private:
  void read_runs(const std::string& name, std::span<const Run> runs, Tensor& range) const;
  void read_stored(const std::string& name, int64_t begin, Tensor& range) const;
  void compare_tied_head(std::span<const Run> runs, const Tensor& range) const;

  std::string path_;
  SafetensorsFolder folder_;
  std::vector<std::string> stored_names_;  // by parameter
  std::vector<Cut> cuts_;                  // likewise
  std::optional<size_t>
      tied_embeddings_;  // the parameter of which lm_head.weight is stored besides
};

// The name of a parameter in a folder that stores these names: its own, or that without the body's
// prefix.
std::string stored_name_of(const std::string& parameter, const std::set<std::string>& stored);

std::vector<ParamSpec> specs_of(const ParameterStore& store);

// What a folder for export holds: each parameter's name, shape and `dtype`, for SafetensorsWriter.
// A tied head is left out, as transformers does.
std::vector<SafetensorsTensor> export_list(std::span<const ParamSpec> specs, DType dtype);

}  // namespace ds
