// Stored tensors under other names than their files have.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/hf/weight_folder.h"

namespace ds {

class RenamedTensors final : public StoredTensors {
 public:
  // `names`: from the new name to the stored one; a tensor that is not among them is not there.
  RenamedTensors(WeightFolder stored, std::map<std::string, std::string> names)
      : stored_(std::move(stored)), names_(std::move(names)) {}

  std::vector<std::string> names() const override;
  const SafetensorsInfo& info(const std::string& name) const override;
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const override;

 private:
  const std::string& stored_name(const std::string& name) const;

  WeightFolder stored_;
  std::map<std::string, std::string> names_;
};

// How many bytes of wrappers' names ("module.", "_forward_module.", "_orig_mod.", and the "model."
// of a program that has the model as a member) all names begin with.
size_t wrapper_bytes(std::span<const std::string> names);

// The tensors under their names without those.
WeightFolder without_wrappers(WeightFolder stored);

}  // namespace ds
