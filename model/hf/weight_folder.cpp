#include "model/hf/weight_folder.h"

#include "core/files/hub_name.h"
#include "model/hf/narrowed_tensors.h"
#include "model/hf/safetensors.h"
#include "model/hf/torch_weights.h"

namespace ds {
namespace {

bool has_safetensors(const FileSystem& file_system, const std::string& folder) {
  return file_system.exists(join_path(folder, "model.safetensors")) ||
         file_system.exists(join_path(folder, "model.safetensors.index.json"));
}

// What a format reads by itself, behind the interface.
template <class Folder>
class TensorsOf final : public StoredTensors {
 public:
  explicit TensorsOf(Folder folder) : folder_(std::move(folder)) {}
  std::vector<std::string> names() const override { return folder_.names(); }
  std::vector<std::string> notes() const override {
    if constexpr (requires { folder_.notes(); }) return folder_.notes();
    return {};
  }
  const SafetensorsInfo& info(const std::string& name) const override { return folder_.info(name); }
  void read_part(const std::string& name, int64_t offset,
                 std::span<std::byte> into) const override {
    folder_.read_part(name, offset, into);
  }

 private:
  Folder folder_;
};

}  // namespace

bool WeightFolder::exists(const FileSystem& file_system, const std::string& folder) {
  return has_safetensors(file_system, folder) || TorchWeights::exists(file_system, folder);
}

WeightFolder WeightFolder::open(FileSystem& file_system, const std::string& path) {
  const bool pickled = is_pickled(path) || TorchWeights::exists(file_system, path);
  if (pickled && !has_safetensors(file_system, path)) {
    return WeightFolder(std::make_shared<const NarrowedTensors>(
        std::make_shared<const TensorsOf<TorchWeights>>(TorchWeights::open(file_system, path))));
  }
  return WeightFolder(std::make_shared<const TensorsOf<SafetensorsFolder>>(
      SafetensorsFolder::open(file_system, path)));
}

}  // namespace ds
