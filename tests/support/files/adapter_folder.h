// Folders of low-rank adapters as peft writes them: adapter_config.json and
// adapter_model.safetensors, beside the model of a folder. Header-only; for targets that link
// train.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "config/sections/adapters/adapter_file.h"
#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/hf/safetensors.h"
#include "model/hf/weights.h"
#include "train/settings/adapter_fit.h"

namespace ds::testing {

struct AdapterFixture {
  std::string folder;  // is made
  std::string base;    // the folder of the model
  AdapterSpec spec{};
  std::string named_base = base;  // as adapter_config.json has it
};

// A multiple of 1/64, another one for each place and tensor.
inline float adapter_value(size_t tensor, size_t place) {
  return static_cast<float>(static_cast<int>((place * 37 + tensor * 11) % 19) - 9) / 64;
}

inline void write_adapters(FileSystem& files, const AdapterFixture& what) {
  ModelConfig model = read_hf_model(files, what.base);
  model.adapters = what.spec;
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  std::vector<ExportTensor> tensors = export_list(specs, DType::kF32);
  std::erase_if(tensors, [](const ExportTensor& entry) {
    return std::ranges::none_of(entry.parts, [](const ParamSpec* part) { return part->trains; });
  });
  std::vector<SafetensorsTensor> list;
  std::vector<std::vector<float>> values;
  for (ExportTensor& entry : tensors) {
    std::vector<float>& own = values.emplace_back(to_size(entry.tensor.shape.numel()));
    for (size_t i = 0; i < own.size(); ++i) own[i] = adapter_value(values.size(), i);
    entry.tensor.name = std::string(adapter_names::kPrefix) + entry.tensor.name;
    entry.tensor.data = std::as_bytes(std::span(own));
    list.push_back(entry.tensor);
  }
  files.make_directories(what.folder);
  write_safetensors(files, join_path(what.folder, adapter_names::kWeights), list);
  files.write_text_atomically(
      join_path(what.folder, adapter_names::kConfig),
      format_adapter_file({.spec = what.spec,
                           .modules = target_names(model),
                           .base = what.named_base,
                           .task = "CAUSAL_LM",
                           .inputs_first = transformer_spec(model).inputs_first}));
}

// All tensors of a folder, or of a file, in fp32.
inline std::map<std::string, std::vector<float>> tensors_in(FileSystem& files,
                                                            const std::string& path) {
  std::map<std::string, std::vector<float>> tensors;
  const WeightFolder folder = WeightFolder::open(files, path);
  for (const std::string& name : folder.names()) {
    std::vector<float> values(to_size(folder.info(name).shape.numel()));
    folder.read_part(name, 0, std::as_writable_bytes(std::span(values)));
    tensors.emplace(name, std::move(values));
  }
  return tensors;
}

}  // namespace ds::testing
