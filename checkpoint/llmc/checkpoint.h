// A checkpoint of llm.c: model_00000010.bin, and where they lie beside it, state_00000010_00000.bin
// of each rank with the moments of AdamW and, of a model in bf16, the fp32 weights. Files are
// mapped, and read where they lie.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/llmc/layout.h"
#include "core/files/file.h"
#include "core/files/mapped_file.h"
#include "model/hf/stored_tensors.h"

namespace ds::llmc {

// Whether the path is that of a model of llm.c.
bool is_model_file(const FileSystem& files, const std::string& path);

class Checkpoint {
 public:
  // DataError and Unsupported as the headers are read, and for files of another size than they
  // say; InputMissing where a rank's state is missing between others.
  static std::shared_ptr<const Checkpoint> open(const FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  const ModelHeader& header() const { return header_; }
  std::optional<int64_t> step() const;     // nothing without states
  std::vector<std::string> slots() const;  // of the optimizer; none without states
  const std::map<std::string, Place>& places() const { return places_; }

  // What a slot has, or as "fp32" the weights, which are the masters where there are such: the
  // type, and `into` filled with elements from `begin` on, in the row-major order of their tensor.
  DType dtype_of(const std::string& slot) const;
  void read(const std::string& slot, const Place& place, int64_t begin,
            std::span<std::byte> into) const;

 private:
  void open_states(const FileSystem& files);
  void cut_states(const std::string& prefix);

  std::string path_;
  ModelHeader header_;
  std::map<std::string, Place> places_;
  MappedFile model_;
  std::vector<MappedFile> states_;  // by rank
  StateHeader state_{};
  int64_t parts_ = 1;  // that each tensor is cut into, one for a file; 1: each file has all
};

// One slot of it, as readers of Hugging Face's weights take tensors.
std::shared_ptr<const StoredTensors> stored_slot(std::shared_ptr<const Checkpoint> checkpoint,
                                                 const std::string& slot);

}  // namespace ds::llmc
