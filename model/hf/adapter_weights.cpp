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

// Names as the model has them. Files of peft before 0.12 have a magnitude without ".weight".
WeightFolder without_prefix(const WeightFolder& stored, const std::string& path) {
  std::map<std::string, std::string> names;
  for (const std::string& name : stored.names()) {
    if (!name.starts_with(adapter_names::kPrefix)) {
      throw DataError(fmt::format("{}: {} does not begin with {}, as names of adapters do", path,
                                  name, adapter_names::kPrefix));
    }
    std::string own = name.substr(adapter_names::kPrefix.size());
    if (own.ends_with(adapter_names::kMagnitude)) own += ".weight";
    names.emplace(std::move(own), name);
  }
  return WeightFolder(std::make_shared<RenamedTensors>(stored, std::move(names)));
}

}  // namespace

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
  adapters_.emplace(without_prefix(WeightFolder::open(files, path), path), path, trained);
}

void AdaptedWeights::read(size_t index, int64_t begin, Tensor& range) const {
  if (places_[index] != kNowhere) return adapters_->read(places_[index], begin, range);
  base_->read(index, begin, range);
}

}  // namespace ds
