#include "core/torch/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/status/error.h"

namespace ds {

std::optional<double> TorchValue::as_number() const {
  if (const auto integer = as_int(); integer.has_value()) return static_cast<double>(*integer);
  return as_float();
}

std::optional<std::string_view> TorchValue::as_text() const {
  return kind_ == Kind::kText ? scalar<std::string_view>() : std::nullopt;
}

std::optional<std::string_view> TorchValue::as_bytes() const {
  return kind_ == Kind::kBytes ? scalar<std::string_view>() : std::nullopt;
}

const TorchValue* TorchDict::find(std::string_view key) const {
  const auto found = std::ranges::find_if(
      items, [&](const auto& item) { return item.first.as_text() == std::optional(key); });
  return found == items.end() ? nullptr : &found->second;
}

const TorchValue* TorchDict::find(int64_t key) const {
  const auto found = std::ranges::find_if(
      items, [&](const auto& item) { return item.first.as_int() == std::optional(key); });
  return found == items.end() ? nullptr : &found->second;
}

int64_t TorchTensor::numel() const {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t numel = 1;
  for (const int64_t extent : shape) numel *= extent;
  return numel;
}

bool TorchTensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

const TorchValue* TorchRecord::attribute(std::string_view key) const {
  const TorchDict* attributes = state.as_dict();
  return attributes == nullptr ? nullptr : attributes->find(key);
}

std::string TorchRecord::full_name() const { return fmt::format("{}.{}", module, name); }

std::string_view kind_text(TorchValue::Kind kind) {
  switch (kind) {
    case TorchValue::Kind::kNone:
      return "None";
    case TorchValue::Kind::kBool:
      return "a bool";
    case TorchValue::Kind::kInt:
      return "an integer";
    case TorchValue::Kind::kFloat:
      return "a float";
    case TorchValue::Kind::kText:
      return "a text";
    case TorchValue::Kind::kBytes:
      return "bytes";
    case TorchValue::Kind::kList:
      return "a list";
    case TorchValue::Kind::kTuple:
      return "a tuple";
    case TorchValue::Kind::kSet:
      return "a set";
    case TorchValue::Kind::kDict:
      return "a dict";
    case TorchValue::Kind::kDType:
      return "a dtype";
    case TorchValue::Kind::kStorage:
      return "a storage";
    case TorchValue::Kind::kTensor:
      return "a tensor";
    case TorchValue::Kind::kRecord:
      return "an object";
    case TorchValue::Kind::kName:
      return "the name of a class";
  }
  throw InternalError("kind_text: an unknown kind");
}

}  // namespace ds
