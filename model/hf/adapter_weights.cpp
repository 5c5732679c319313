#include "model/hf/adapter_weights.h"

#include <map>
#include <memory>

#include "config/families/spec/adapters.h"
#include "model/hf/renamed_tensors.h"

namespace ds {
namespace {

std::string file_of(FileSystem& files, const std::string& folder) {
  for (const char* const name : {adapter_names::kWeights, adapter_names::kTorchWeights}) {
    const std::string path = join_path(folder, name);
    if (files.exists(path)) return path;
  }
  throw InputMissing(fmt::format("{}: no {} is beside {}", folder, adapter_names::kWeights,
                                 adapter_names::kConfig));
}

// A parameter's own name, of that in a file. Magnitudes have no ".weight" there, and what trains of
// a layer beside its adapter is one word further down.
std::string own_name(std::string name) {
  if (name.ends_with(adapter_names::kMagnitude)) return name + ".weight";
  const std::string base = fmt::format(".{}.", adapter_names::kBase);
  if (const size_t at = name.rfind(base); at != std::string::npos)
    name.erase(at + 1, base.size() - 1);
  return name;
}

WeightFolder without_prefix(const WeightFolder& stored, const std::string& path) {
  std::map<std::string, std::string> names;
  for (const std::string& name : stored.names()) {
    if (!name.starts_with(adapter_names::kPrefix)) {
      throw DataError(fmt::format("{}: {} does not begin with {}, as names of adapters do", path,
                                  name, adapter_names::kPrefix));
    }
    names.emplace(own_name(name.substr(adapter_names::kPrefix.size())), name);
  }
  return WeightFolder(std::make_shared<RenamedTensors>(stored, std::move(names)));
}

}  // namespace

std::string adapter_file_name(const std::string& parameter, bool has_adapter) {
  const std::string module(module_of_parameter(parameter));
  if (is_magnitude(parameter)) {
    return fmt::format("{}{}.{}", adapter_names::kPrefix, module, adapter_names::kMagnitude);
  }
  if (!has_adapter || is_adapter_parameter(parameter)) {
    return fmt::format("{}{}", adapter_names::kPrefix, parameter);
  }
  return fmt::format("{}{}.{}{}", adapter_names::kPrefix, module, adapter_names::kBase,
                     parameter.substr(module.size()));
}

AdaptedWeights::AdaptedWeights(FileSystem& files, const std::string& base,
                               std::span<const ParamSpec> specs, AbsentModules absent,
                               const std::optional<std::string>& adapters) {
  std::vector<ParamSpec> trained;
  for (const ParamSpec& spec : specs) {
    const bool is_there = adapters && spec.trains;
    places_.push_back(is_there ? trained.size() : kNowhere);
    if (!is_there) continue;
    trained.push_back(spec);
    // The model may be without what trained as a whole, such as a head of its own.
    if (!is_adapter_parameter(spec.name)) absent.emplace_back(module_of_parameter(spec.name));
  }
  base_.emplace(files, base, specs, std::move(absent));
  if (!adapters) return;
  const std::string path = file_of(files, *adapters);
  adapters_.emplace(without_prefix(WeightFolder::open(files, path), path), path, trained,
                    NewHead{.is_without_adapters = false});
}

void AdaptedWeights::read(size_t index, int64_t begin, Tensor& range) const {
  if (places_[index] != kNowhere) return adapters_->read(places_[index], begin, range);
  base_->read(index, begin, range);
}

}  // namespace ds
