#include "model/hf/renamed_tensors.h"

#include "core/status/error.h"

namespace ds {

std::vector<std::string> RenamedTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, stored] : names_) names.push_back(name);
  return names;
}

const std::string& RenamedTensors::stored_name(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) throw DataError(fmt::format("there is no tensor '{}'", name));
  return found->second;
}

const SafetensorsInfo& RenamedTensors::info(const std::string& name) const {
  return stored_.info(stored_name(name));
}

void RenamedTensors::read_part(const std::string& name, int64_t offset,
                               std::span<std::byte> into) const {
  stored_.read_part(stored_name(name), offset, into);
}

}  // namespace ds
