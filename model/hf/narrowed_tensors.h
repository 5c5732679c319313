// Stored tensors of which those of fp64 are read as fp32, rounded to the nearest as PyTorch does
// when it loads them into a model of fp32.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/hf/stored_tensors.h"

namespace ds {

class NarrowedTensors final : public StoredTensors {
 public:
  explicit NarrowedTensors(std::shared_ptr<const StoredTensors> stored);

  std::vector<std::string> names() const override { return stored_->names(); }
  const SafetensorsInfo& info(const std::string& name) const override;
  std::vector<std::string> notes() const override;  // also which tensors those are
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const override;

 private:
  std::shared_ptr<const StoredTensors> stored_;
  std::map<std::string, SafetensorsInfo> narrowed_;
};

}  // namespace ds
