// Writing a trained model as a Hugging Face folder, which transformers loads: its weights, and
// beside them what the folders that training started from say of the model and its tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "config/families/list.h"
#include "core/files/file.h"
#include "model/hf/weights.h"
#include "model/pass/param.h"

namespace ds {

// How the weights of a folder are stored.
enum class WeightFormat : uint8_t { kSafetensors, kTorch };  // model.safetensors, pytorch_model.bin

// Everything in the folder but the weights. It is read before training, so that what it comes from
// may change or go.
struct FolderFrame {
  // Name -> content; config.json, generation_config.json, tokenizer.json ...
  std::map<std::string, std::string> files;
  std::set<std::string> stored_names;  // of the weights that training started from, which an export
                                       // keeps; may be empty
  DType dtype = DType::kF32;           // of the weights
  std::string dtype_said_by = "train.final_dtype";  // what a message says to change
  WeightFormat format = WeightFormat::kSafetensors;
  bool has_adapters_alone = false;  // it is a folder as peft has it, of what trains
};
// A model with adapters has the frame of a folder of these. `source`: the folder training started
// from. `tokenizer`: "byte", of which a folder holds nothing,
// a file of a tokenizer, or a folder with one. InputMissing or DataError for what cannot be read.
FolderFrame folder_frame(FileSystem& files, const ModelConfig& model,
                         const std::optional<std::string>& source, const std::string& tokenizer,
                         DType dtype);

struct ModelExport {
  std::string folder;  // made if missing
  FolderFrame frame;
  std::vector<ParamSpec> specs;
};
// Streams the fp32 master weights of a tag, one tensor at a time, into the folder. What an earlier
// export left there goes. ValidationError for a weight that the number type cannot hold.
void write_model_folder(FileSystem& files, const ModelExport& what, CheckpointReader& reader);

// Fills a flat fp32 tensor with elements of a parameter from `begin` on, by its place among the
// specs.
using ReadParameter = std::function<void(size_t index, int64_t begin, Tensor& into)>;
// All of a tensor of a folder, in fp32; what it joins is read part by part.
std::vector<float> whole_tensor(const ExportTensor& entry, std::span<const ParamSpec> specs,
                                const ReadParameter& read);
// The same with weights from elsewhere.
void write_model_folder(FileSystem& files, const ModelExport& what, const ReadParameter& read);

}  // namespace ds
