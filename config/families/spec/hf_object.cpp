#include "config/families/spec/hf_object.h"

#include "core/status/error.h"

namespace ds {

using Json = rapidjson::Value;

std::string_view text_of(const Json& value) { return {value.GetString(), value.GetStringLength()}; }

namespace {

const Json* member_of(const Json& object, std::string_view key) {
  const auto found = object.FindMember(
      Json(rapidjson::StringRef(key.data(), static_cast<rapidjson::SizeType>(key.size()))));
  return found == object.MemberEnd() ? nullptr : &found->value;
}

}  // namespace

const Json* HfObject::find(std::string_view key) const {
  if (asked_ != nullptr) asked_->emplace(key);
  const Json* const value = member_of(object_, key);
  return value == nullptr || value->IsNull() ? nullptr : value;
}

bool HfObject::is_null(std::string_view key) const {
  const Json* const value = member_of(object_, key);
  return value != nullptr && value->IsNull();
}

std::vector<std::string_view> HfObject::keys() const {
  std::vector<std::string_view> out;
  for (const auto& member : object_.GetObject()) {
    if (!member.value.IsNull()) out.push_back(text_of(member.name));
  }
  return out;
}

std::optional<double> HfObject::number(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->IsNumber()) {
    throw DataError(fmt::format("{}: \"{}\" must be a number", path_, key));
  }
  return value->GetDouble();
}

std::optional<HfObject> HfObject::object(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->IsObject()) {
    throw DataError(fmt::format("{}: \"{}\" must be an object", path_, key));
  }
  return HfObject(*value, path_);
}

const Json* HfObject::list(std::string_view key) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->IsArray()) {
    throw DataError(fmt::format("{}: \"{}\" must be a list", path_, key));
  }
  return value;
}

void HfObject::refuse(const std::string& what) const {
  throw Unsupported(fmt::format("{}: {} is not supported", path_, what));
}

void HfObject::refuse_unless(std::string_view key, bool built) const {
  const Json* const value = find(key);
  if (value == nullptr) return;
  if (value->IsBool() && value->GetBool() == built) return;
  refuse(fmt::format("\"{}\" other than {}", key, built));
}

}  // namespace ds
