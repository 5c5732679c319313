#include "data/tokenizer/read/json_part.h"

#include "core/status/error.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {

void JsonPart::refuse(const std::string& defect) const {
  throw DataError(fmt::format("{}: {}", *file_, defect));
}

void JsonPart::unsupported(const std::string& what) const {
  throw Unsupported(fmt::format("{}: {} is not supported", *file_, what));
}

std::optional<JsonPart> JsonPart::member(const char* key) const {
  const Json* const found = last_member(*value_, key);
  return found == nullptr ? std::nullopt : std::optional(JsonPart(*file_, *found, key));
}

JsonPart JsonPart::require(const char* key) const {
  if (const auto found = member(key)) return *found;
  refuse(fmt::format("{} has no \"{}\"", type(), key));
}

std::vector<JsonPart> JsonPart::list(const char* key) const {
  const JsonPart found = require(key);
  if (!found.value().IsArray()) refuse(fmt::format("\"{}\" of {} is no list", key, type()));
  std::vector<JsonPart> out;
  for (const Json& item : found.value().GetArray()) out.emplace_back(*file_, item, key);
  return out;
}

std::string JsonPart::type() const {
  const auto found = member("type");
  return found && found->value().IsString()
             ? std::string(found->value().GetString(), found->value().GetStringLength())
             : name_;
}

bool JsonPart::flag(const char* key, bool fallback) const {
  const auto found = member(key);
  if (!found) return fallback;
  if (!found->value().IsBool()) refuse(fmt::format("\"{}\" is not true or false", key));
  return found->value().GetBool();
}

std::string JsonPart::text(const char* key) const {
  const JsonPart found = require(key);
  if (!found.value().IsString()) refuse(fmt::format("\"{}\" of {} is no text", key, type()));
  return characters_of(found.value());
}

std::string JsonPart::characters_of(const Json& string) const {
  std::string out(string.GetString(), string.GetStringLength());
  if (first_invalid_utf8(out) != std::string::npos)
    refuse(fmt::format("a string of {} is no UTF-8: it has half of a surrogate pair", type()));
  return out;
}

std::string JsonPart::text(const char* key, const std::string& fallback) const {
  return member(key) ? text(key) : fallback;
}

size_t JsonPart::count(const char* key, size_t fallback) const {
  const auto found = member(key);
  if (!found) return fallback;
  if (!found->value().IsInt() || found->value().GetInt() < 0)
    refuse(fmt::format("\"{}\" of {} is no count", key, type()));
  return static_cast<size_t>(found->value().GetInt());
}

std::string JsonPart::character(const char* key) const {
  std::string out = text(key);
  if (out.empty() || first_character(out).length != out.size())
    refuse(fmt::format("\"{}\" of {} is not one character", key, type()));
  return out;
}

}  // namespace ds
