#include "model/hf/renamed_tensors.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

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

namespace {

constexpr std::string_view kMember = "model.";
constexpr std::array<std::string_view, 4> kWrappers{"module.", "_forward_module.", "_orig_mod.",
                                                    kMember};

// Bodies of models are called so themselves; one that has a body or a head inside is a program's.
bool has_model_inside(std::span<const std::string> names, size_t begin) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const std::string_view inside = std::string_view(name).substr(begin + kMember.size());
    return inside.starts_with("model.") || inside.starts_with("transformer.") ||
           inside.starts_with("lm_head.");
  });
}

}  // namespace

size_t wrapper_bytes(std::span<const std::string> names) {
  size_t bytes = 0;
  const auto all_go_on = [&](std::string_view wrapper) {
    return std::ranges::all_of(names, [&](const std::string& name) {
      return std::string_view(name).substr(bytes).starts_with(wrapper);
    });
  };
  for (bool found = !names.empty(); found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!all_go_on(wrapper) || (wrapper == kMember && !has_model_inside(names, bytes))) continue;
      bytes += wrapper.size();
      found = true;
    }
  }
  return bytes;
}

WeightFolder without_wrappers(WeightFolder stored) {
  const std::vector<std::string> names = stored.names();
  const size_t wrapper = wrapper_bytes(names);
  if (wrapper == 0) return stored;
  std::map<std::string, std::string> inside;
  for (const std::string& name : names) inside.emplace(name.substr(wrapper), name);
  return WeightFolder(std::make_shared<const RenamedTensors>(std::move(stored), std::move(inside)));
}

}  // namespace ds
