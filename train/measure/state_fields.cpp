#include "train/measure/state_fields.h"

#include <fmt/format.h>

#include "config/reader/json_reader.h"
#include "core/status/error.h"

namespace ds {
namespace {

Value parse_object(const std::string& text, const std::string& what) {
  try {
    return read_config_document(text, what);
  } catch (const ConfigError& error) {
    throw ValidationError(error.what());
  }
}

}  // namespace

StateFields::StateFields(const std::string& text, std::string what)
    : what_(std::move(what)), object_(parse_object(text, what_)) {}

const Value& StateFields::of_kind(const char* key, bool fits, const char* kind) const {
  const Value* const found = object_.find(key);
  if (found == nullptr || !fits) refuse(fmt::format("has no {} \"{}\"", kind, key));
  return *found;
}

double StateFields::number(const char* key) const {
  const Value* const found = object_.find(key);
  const bool fits = found != nullptr && (found->kind() == Value::Kind::kInteger ||
                                         found->kind() == Value::Kind::kNumber);
  return of_kind(key, fits, "number").as_number();
}

int64_t StateFields::integer(const char* key) const {
  const Value* const found = object_.find(key);
  const bool fits = found != nullptr && found->kind() == Value::Kind::kInteger;
  return of_kind(key, fits, "integer").as_integer();
}

std::string StateFields::text(const char* key) const {
  const Value* const found = object_.find(key);
  const bool fits = found != nullptr && found->is_string();
  return of_kind(key, fits, "text").as_string();
}

void StateFields::refuse(const std::string& why) const {
  throw ValidationError(fmt::format("{} {}", what_, why));
}

}  // namespace ds
