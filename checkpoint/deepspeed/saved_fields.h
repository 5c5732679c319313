// The members of a pickled dict by name and type, for readers of DeepSpeed's files: what is missing
// or of another kind is a DataError that names the file and the way to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/torch/torch_file.h"

namespace ds::deepspeed {

// A dict of a file, and how one came to it. Lives as long as the file.
class SavedFields {
 public:
  explicit SavedFields(const TorchFile& file);  // what is at its root
  SavedFields(const TorchFile& file, const TorchDict& dict, std::string path)
      : file_(&file), dict_(&dict), path_(std::move(path)) {}

  // Null where the member is missing or None.
  const TorchValue* find(std::string_view key) const;
  const TorchValue& at(std::string_view key) const;

  SavedFields fields(std::string_view key) const;
  std::optional<SavedFields> optional_fields(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  std::optional<int64_t> optional_integer(std::string_view key) const;
  std::string optional_text(std::string_view key) const;  // empty where it is missing or None
  const TorchList& list(std::string_view key) const;
  const TorchTensor& tensor(std::string_view key) const;

  const TorchFile& file() const { return *file_; }
  const TorchDict& dict() const { return *dict_; }
  // "DIR/x.pt: optimizer_state_dict.zero_stage"; of the dict itself without a key.
  std::string name_of(std::string_view key = {}) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  const TorchFile* file_;
  const TorchDict* dict_;
  std::string path_;
};

// A number that may be saved as one, or as a tensor of one element, as PyTorch's optimizers do;
// nothing for other values.
std::optional<double> number_of(const TorchFile& file, const TorchValue& value);

// The extents of a torch.Size or a list of integers. DataError, in the words of `name`, for others.
std::vector<int64_t> extents_of(const TorchValue& value, const std::string& name);

}  // namespace ds::deepspeed
