#include "checkpoint/deepspeed/stored_slot.h"

#include <fmt/format.h>

#include <set>

#include "core/status/error.h"

namespace ds::deepspeed {

namespace {

SafetensorsInfo info_of(const std::string& directory, const std::string& name,
                        const SavedTensor& tensor) {
  if (std::ssize(tensor.shape) > Shape::kMaxRank) {
    throw Unsupported(fmt::format("{}: {} has {} extents, tensors here have up to {}", directory,
                                  name, tensor.shape.size(), Shape::kMaxRank));
  }
  return {.dtype_name = std::string(tensor.dtype.name),
          .stored_dtype = tensor.dtype.dtype,
          .shape = Shape(tensor.shape),
          .offset = 0,
          .bytes = tensor.numel() * tensor.dtype.size};
}

}  // namespace

StoredSlot::StoredSlot(std::shared_ptr<const DeepSpeedFolder> folder, const std::string& slot)
    : folder_(std::move(folder)), slot_(slot) {
  std::set<std::string> buffers;
  for (const SavedParameter& parameter : folder_->parameters()) {
    if (parameter.kind == SavedParameter::Kind::kBuffer) buffers.insert(parameter.name);
  }
  for (const auto& [name, tensor] : folder_->tensors(slot)) {
    if (!buffers.contains(name)) infos_.emplace(name, info_of(folder_->directory(), name, tensor));
  }
}

std::vector<std::string> StoredSlot::names() const {
  std::vector<std::string> names;
  for (const auto& [name, info] : infos_) names.push_back(name);
  return names;
}

const SafetensorsInfo& StoredSlot::info(const std::string& name) const {
  const auto found = infos_.find(name);
  if (found == infos_.end()) {
    throw DataError(fmt::format("{}: has no {} of {}", folder_->directory(), slot_, name));
  }
  return found->second;
}

void StoredSlot::read_part(const std::string& name, int64_t offset,
                           std::span<std::byte> into) const {
  const SavedTensor& tensor = folder_->tensor(name, slot_);
  read(tensor, offset / tensor.dtype.size, into);
}

}  // namespace ds::deepspeed
