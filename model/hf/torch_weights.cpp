#include "model/hf/torch_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/files/hub_name.h"
#include "core/status/error.h"
#include "core/text/join_some.h"
#include "core/torch/pickle_source.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr const char* kSingle = "pytorch_model.bin";
constexpr const char* kIndex = "pytorch_model.bin.index.json";

// As safetensors name the types of elements, so that a message is the same for both.
std::string name_in_safetensors(const TorchDType& dtype) {
  constexpr std::array kNames = {
      std::pair{"float32", "F32"}, std::pair{"bfloat16", "BF16"}, std::pair{"float16", "F16"},
      std::pair{"float64", "F64"}, std::pair{"int64", "I64"},     std::pair{"int32", "I32"},
      std::pair{"int16", "I16"},   std::pair{"uint8", "U8"},      std::pair{"int8", "I8"},
      std::pair{"bool", "BOOL"},
  };
  const auto* found =
      std::ranges::find_if(kNames, [&](const auto& pair) { return dtype.name == pair.first; });
  return found == kNames.end() ? std::string(dtype.name) : std::string(found->second);
}

const TorchDict& dict_of(const TorchFile& file) {
  const TorchDict* const root = file.root().as_dict();
  if (root != nullptr) return *root;
  throw DataError(fmt::format("{}: {}, expected a dict of tensors by their names (state_dict())",
                              file.path(), kind_text(file.root().kind())));
}

bool is_tensor(const std::pair<TorchValue, TorchValue>& item) {
  return item.second.as_tensor() != nullptr;
}

// The keys under which training programs keep a model's weights, of those that have such here: none
// of a dict that is weights itself.
std::vector<std::string_view> places_of_weights(const TorchDict& root) {
  constexpr std::array<std::string_view, 4> kUsual{"state_dict", "model_state_dict", "model",
                                                   "module"};
  std::vector<std::string_view> places;
  for (const std::string_view key : kUsual) {
    const TorchValue* const value = root.find(key);
    const TorchDict* const dict = value != nullptr ? value->as_dict() : nullptr;
    if (dict != nullptr && std::ranges::any_of(dict->items, is_tensor)) places.push_back(key);
  }
  return places;
}

}  // namespace

bool TorchWeights::exists(const FileSystem& file_system, const std::string& folder) {
  return file_system.exists(join_path(folder, kSingle)) ||
         file_system.exists(join_path(folder, kIndex));
}

TorchWeights TorchWeights::open(FileSystem& file_system, const std::string& folder) {
  TorchWeights weights;
  weights.path_ = folder;
  if (is_pickled(folder) && file_system.exists(folder)) {
    weights.add_checkpoint(TorchFile::open(folder));
    return weights;
  }
  const std::string single = join_path(folder, kSingle);
  if (file_system.exists(single)) {
    weights.add(TorchFile::open(single));
    return weights;
  }
  const std::string index = join_path(folder, kIndex);
  if (!file_system.exists(index)) {
    throw InputMissing(fmt::format("{}: there is neither {} nor {}", folder, kSingle, kIndex));
  }
  const std::map<std::string, std::string> listed = read_weight_map(file_system, index);
  std::map<std::string, size_t> opened;
  for (const auto& [name, shard] : listed) {
    if (opened.try_emplace(shard, weights.files_.size()).second) {
      weights.add(TorchFile::open(join_path(folder, shard)));
    }
    const auto found = weights.entries_.find(name);
    if (found == weights.entries_.end() || found->second.file != opened[shard]) {
      throw DataError(
          fmt::format("{}: '{}' should be in {}, which does not have it", index, name, shard));
    }
  }
  return weights;
}

void TorchWeights::add(TorchFile file) {
  add_tensors(dict_of(file), file.path(), ", and this is a checkpoint of another program");
  files_.push_back(std::move(file));
}

void TorchWeights::add_checkpoint(TorchFile file) {
  const TorchDict& root = dict_of(file);
  const std::vector<std::string_view> places = places_of_weights(root);
  if (places.empty()) return add(std::move(file));
  if (std::ranges::any_of(root.items, is_tensor)) {
    throw DataError(
        fmt::format("{}: there are tensors beside '{}', which has weights, too; save "
                    "one of them alone",
                    file.path(), places.front()));
  }
  if (places.size() > 1) {
    throw DataError(fmt::format("{}: there are weights under {}; save one of them alone",
                                file.path(), fmt::join(places, " and ")));
  }
  std::vector<std::string> others;
  for (const auto& [key, value] : root.items) {
    if (key.as_text() == places.front()) continue;
    others.push_back(key.as_text() ? quoted_of_file(*key.as_text())
                                   : std::string(kind_text(key.kind())));
  }
  constexpr size_t kMostNamed = 8;
  if (!others.empty()) {
    notes_.push_back(fmt::format("{}: the weights are those under '{}'; {} are left out",
                                 file.path(), places.front(), join_some(others, kMostNamed)));
  }
  add_tensors(*root.find(places.front())->as_dict(), file.path(),
              fmt::format(", as those under '{}' have to be", places.front()));
  files_.push_back(std::move(file));
}

void TorchWeights::add_tensors(const TorchDict& dict, const std::string& path,
                               std::string_view otherwise) {
  for (const auto& [key, value] : dict.items) {
    const TorchTensor* tensor = value.as_tensor();
    if (!key.as_text().has_value()) {
      throw DataError(fmt::format("{}: a key is {}, expected the name of a tensor", path,
                                  kind_text(key.kind())));
    }
    if (tensor == nullptr) {
      throw DataError(fmt::format(
          "{}: {} is {}, expected a tensor: weights are a dict of tensors by their names{}", path,
          quoted_of_file(*key.as_text()), kind_text(value.kind()), otherwise));
    }
    const std::string name(*key.as_text());
    if (tensor->shape.size() > to_size(Shape::kMaxRank)) {
      throw DataError(fmt::format("{}: tensor '{}' has {} extents, expected {} at most", path, name,
                                  tensor->shape.size(), Shape::kMaxRank));
    }
    const Entry entry{.info = {.dtype_name = name_in_safetensors(tensor->dtype),
                               .stored_dtype = tensor->dtype.dtype,
                               .shape = Shape(tensor->shape),
                               .offset = 0,
                               .bytes = tensor->bytes()},
                      .tensor = tensor,
                      .file = files_.size()};
    if (!entries_.emplace(name, entry).second) {
      throw DataError(fmt::format("{}: tensor '{}' is in another shard, too", path, name));
    }
  }
}

std::vector<std::string> TorchWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const TorchWeights::Entry& TorchWeights::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw DataError(fmt::format("{}: there is no tensor '{}'", path_, name));
  }
  return found->second;
}

const SafetensorsInfo& TorchWeights::info(const std::string& name) const {
  return entry(name).info;
}

void TorchWeights::read_part(const std::string& name, int64_t offset,
                             std::span<std::byte> into) const {
  const Entry& found = entry(name);
  const int64_t size = found.tensor->dtype.size;
  DS_CHECK(offset % size == 0, "read_part: byte {} of '{}' lies inside of an element", offset,
           name);
  files_[found.file].copy(*found.tensor, offset / size, into);
}

}  // namespace ds
