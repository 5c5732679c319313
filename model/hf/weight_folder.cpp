#include "model/hf/weight_folder.h"

#include "core/files/hub_name.h"

namespace ds {
namespace {

bool has_safetensors(const FileSystem& file_system, const std::string& folder) {
  return file_system.exists(join_path(folder, "model.safetensors")) ||
         file_system.exists(join_path(folder, "model.safetensors.index.json"));
}

}  // namespace

bool WeightFolder::exists(const FileSystem& file_system, const std::string& folder) {
  return has_safetensors(file_system, folder) || TorchWeights::exists(file_system, folder);
}

WeightFolder WeightFolder::open(FileSystem& file_system, const std::string& path) {
  const bool pickled = is_pickled(path) || TorchWeights::exists(file_system, path);
  if (pickled && !has_safetensors(file_system, path)) {
    return WeightFolder(TorchWeights::open(file_system, path));
  }
  return WeightFolder(SafetensorsFolder::open(file_system, path));
}

namespace {

const SafetensorsFolder& tensors_of(const SafetensorsFolder& stored) { return stored; }
const TorchWeights& tensors_of(const TorchWeights& stored) { return stored; }
const StoredTensors& tensors_of(const std::shared_ptr<const StoredTensors>& stored) {
  return *stored;
}

}  // namespace

std::vector<std::string> WeightFolder::names() const {
  return std::visit([](const auto& stored) { return tensors_of(stored).names(); }, stored_);
}

const SafetensorsInfo& WeightFolder::info(const std::string& name) const {
  return std::visit(
      [&](const auto& stored) -> const SafetensorsInfo& { return tensors_of(stored).info(name); },
      stored_);
}

void WeightFolder::read_part(const std::string& name, int64_t offset,
                             std::span<std::byte> into) const {
  std::visit([&](const auto& stored) { tensors_of(stored).read_part(name, offset, into); },
             stored_);
}

}  // namespace ds
