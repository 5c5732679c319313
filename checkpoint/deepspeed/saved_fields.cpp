#include "checkpoint/deepspeed/saved_fields.h"

#include <fmt/format.h>

#include <cstring>

#include "core/status/error.h"

namespace ds::deepspeed {

namespace {

const TorchDict& root_of(const TorchFile& file) {
  const TorchDict* root = file.root().as_dict();
  if (root == nullptr) {
    throw DataError(fmt::format("{}: has {}, expected the dict that DeepSpeed saves", file.path(),
                                kind_text(file.root().kind())));
  }
  return *root;
}

template <class T>
double as_number(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

SavedFields::SavedFields(const TorchFile& file) : file_(&file), dict_(&root_of(file)) {}

std::string SavedFields::name_of(std::string_view key) const {
  std::string way = path_;
  if (!key.empty()) way += fmt::format("{}{}", way.empty() ? "" : ".", key);
  return way.empty() ? file_->path() : fmt::format("{}: {}", file_->path(), way);
}

void SavedFields::refuse(std::string_view key, std::string_view expected) const {
  const TorchValue* value = dict_->find(key);
  throw DataError(fmt::format("{} is {}, expected {}", name_of(key),
                              value == nullptr ? "missing" : kind_text(value->kind()), expected));
}

const TorchValue* SavedFields::find(std::string_view key) const {
  const TorchValue* value = dict_->find(key);
  return value == nullptr || value->is_none() ? nullptr : value;
}

const TorchValue& SavedFields::at(std::string_view key) const {
  const TorchValue* value = find(key);
  if (value == nullptr) refuse(key, "a value");
  return *value;
}

SavedFields SavedFields::fields(std::string_view key) const {
  const std::optional<SavedFields> found = optional_fields(key);
  if (!found) refuse(key, "a dict");
  return *found;
}

std::optional<SavedFields> SavedFields::optional_fields(std::string_view key) const {
  const TorchValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const TorchDict* dict = value->as_dict();
  if (dict == nullptr) refuse(key, "a dict");
  return SavedFields(*file_, *dict, fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", key));
}

int64_t SavedFields::integer(std::string_view key) const {
  const std::optional<int64_t> found = optional_integer(key);
  if (!found) refuse(key, "an integer");
  return *found;
}

std::optional<int64_t> SavedFields::optional_integer(std::string_view key) const {
  const TorchValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = value->as_int();
  if (!number) refuse(key, "an integer");
  return number;
}

std::string SavedFields::optional_text(std::string_view key) const {
  const TorchValue* value = find(key);
  if (value == nullptr) return {};
  const std::optional<std::string_view> text = value->as_text();
  if (!text) refuse(key, "a text");
  return std::string(*text);
}

const TorchList& SavedFields::list(std::string_view key) const {
  const TorchValue* value = find(key);
  const TorchList* found = value == nullptr ? nullptr : value->as_sequence();
  if (found == nullptr) refuse(key, "a list");
  return *found;
}

const TorchTensor& SavedFields::tensor(std::string_view key) const {
  const TorchValue* value = find(key);
  const TorchTensor* found = value == nullptr ? nullptr : value->as_tensor();
  if (found == nullptr) refuse(key, "a tensor");
  return *found;
}

std::optional<double> number_of(const TorchFile& file, const TorchValue& value) {
  if (const std::optional<double> number = value.as_number()) return number;
  const TorchTensor* tensor = value.as_tensor();
  if (tensor == nullptr || tensor->numel() != 1) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(tensor->dtype.size));
  file.copy(*tensor, 0, bytes);
  if (tensor->dtype.name == "float32") return as_number<float>(bytes.data());
  if (tensor->dtype.name == "float64") return as_number<double>(bytes.data());
  if (tensor->dtype.name == "int64") return as_number<int64_t>(bytes.data());
  if (tensor->dtype.name == "int32") return as_number<int32_t>(bytes.data());
  return std::nullopt;
}

std::vector<int64_t> extents_of(const TorchValue& value, const std::string& name) {
  const TorchList* list = value.as_sequence();
  if (list == nullptr) {
    throw DataError(fmt::format("{} is {}, expected a shape", name, kind_text(value.kind())));
  }
  std::vector<int64_t> extents;
  for (const TorchValue& item : list->items) {
    const std::optional<int64_t> extent = item.as_int();
    if (!extent || *extent < 0) {
      throw DataError(fmt::format("{} has an extent that is no integer from 0 on", name));
    }
    extents.push_back(*extent);
  }
  return extents;
}

}  // namespace ds::deepspeed
