// The tensors of one slot of a DeepSpeed checkpoint (its weights, exp_avg, ...), as readers of
// Hugging Face's weights take them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/folder.h"
#include "model/hf/stored_tensors.h"

namespace ds::deepspeed {

class StoredSlot final : public StoredTensors {
 public:
  // Buffers, which are no parameters, are left out. DataError or Unsupported as
  // DeepSpeedFolder::tensors; Unsupported for a shape of more extents than tensors of ours have.
  StoredSlot(std::shared_ptr<const DeepSpeedFolder> folder, const std::string& slot);

  std::vector<std::string> names() const override;
  const SafetensorsInfo& info(const std::string& name) const override;
  void read_part(const std::string& name, int64_t offset, std::span<std::byte> into) const override;

 private:
  std::shared_ptr<const DeepSpeedFolder> folder_;
  std::string slot_;
  std::map<std::string, SafetensorsInfo> infos_;
};

}  // namespace ds::deepspeed
