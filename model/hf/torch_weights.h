// The weights of a folder as PyTorch's own files have them: pytorch_model.bin, or the shards that
// pytorch_model.bin.index.json lists. They are mapped and read where they lie; nothing of them is
// run (core/torch/torch_file.h). A tensor that several names share is one in memory, as the file
// has it. One file may be the checkpoint of a training program, which has the weights under a key
// of its own (`state_dict`, `model`) beside what else it keeps; a note says so.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/torch/torch_file.h"
#include "model/hf/safetensors.h"

namespace ds {

class TorchWeights {
 public:
  static bool exists(const FileSystem& file_system, const std::string& folder);
  // `folder`, or the path of one file. InputMissing without one, DataError for what is wrong in
  // it; the index is read from `file_system`, and the weights from the machine's files.
  static TorchWeights open(FileSystem& file_system, const std::string& folder);

  std::vector<std::string> names() const;  // sorted
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const SafetensorsInfo& info(const std::string& name) const;  // DataError for an unknown name
  const std::vector<std::string>& notes() const { return notes_; }
  // Part of a tensor, from byte `offset` of its elements in row-major order; whole elements.
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const;

 private:
  struct Entry {
    SafetensorsInfo info{};
    const TorchTensor* tensor = nullptr;
    size_t file = 0;
  };
  void add(TorchFile file);
  // Adds what is in a dict of the file that is added next.
  // `otherwise`: what else is said where something in it is no tensor.
  void add_tensors(const TorchDict& dict, const std::string& path, std::string_view otherwise);
  void add_checkpoint(TorchFile file);
  const Entry& entry(const std::string& name) const;

  std::string path_;
  std::vector<TorchFile> files_;
  std::vector<std::string> notes_;
  std::map<std::string, Entry> entries_;
};

}  // namespace ds
