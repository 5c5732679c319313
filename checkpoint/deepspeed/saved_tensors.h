// Which tensors a DeepSpeed checkpoint has: whole parameters, whatever ranks their elements are cut
// over, by slot (fp32 weights, exp_avg, ...). Elements stay in the files until they are read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/cuts/tensor_join.h"
#include "checkpoint/deepspeed/progress.h"
#include "core/torch/torch_file.h"

namespace ds::deepspeed {

// Files that are open; tensors point into them.
using OpenFiles = std::vector<std::unique_ptr<const TorchFile>>;

// Elements [first, first + numel) of a saved tensor.
struct SavedRun {
  const TorchFile* file;
  const TorchTensor* tensor;
  int64_t first;
  int64_t numel;
};

struct JoinedTensor;

struct SavedTensor {
  TorchDType dtype{};
  std::vector<int64_t> shape{};
  std::vector<SavedRun> runs{};                  // together its elements, in order
  std::shared_ptr<const JoinedTensor> joined{};  // of tensor-parallel ranks; then there are no runs
  int64_t numel() const;
};

// What each of the ranks has, and how it makes the whole.
struct JoinedTensor {
  std::string name;
  TensorJoin join;
  std::vector<SavedTensor> ranks;
};
using TensorsByName = std::map<std::string, SavedTensor>;

struct SavedParameter {
  enum class Kind : uint8_t {
    kTrained,
    kFrozen,  // without state of an optimizer
    kBuffer,  // no parameter of the model
    kShared,  // another name of a parameter
  };
  std::string name;
  Kind kind;
  std::string owner{};  // of kShared: the parameter that it is another name of
};

struct SavedTable {
  std::vector<SavedParameter> parameters;        // in the order of the files
  TensorsByName weights;                         // of all; fp32 where ZeRO keeps masters
  std::map<std::string, TensorsByName> slots{};  // by what the optimizer calls them; of the trained
  std::string why_no_slots{};  // what of the optimizer's state cannot be read, in words; else empty
  Progress progress{};
};

// Elements [begin, begin + into.size() / tensor.dtype.size) of a tensor, in its own type. DataError
// naming it and the files where tensor-parallel ranks differ in what all of them should have alike.
void read(const SavedTensor& tensor, int64_t begin, std::span<std::byte> into);

// The tensor as it lies in a file.
SavedTensor whole_tensor(const TorchFile& file, const TorchTensor& tensor);

// Stages 1 to 3. The files are by rank. DataError naming the file that does not fit the others, or
// whose tensors do not add up; Unsupported for what is not read.
SavedTable zero_table(const OpenFiles& model, const OpenFiles& optimizer);

// Stage 0: everything is in one file.
SavedTable plain_table(const TorchFile& file);

// A universal folder: one file for each state of each parameter.
struct UniversalParameter {
  std::string name;
  std::map<std::string, const TorchFile*> states;  // by their names without ".pt"
};
SavedTable universal_table(const TorchFile& model, std::span<const UniversalParameter> parameters);

}  // namespace ds::deepspeed
