// Reads a small state that came with a checkpoint, an object of JSON.
#pragma once

#include <cstdint>
#include <string>

#include "config/reader/value.h"

namespace ds {

class StateFields {
 public:
  // what: whose state it is, in messages ("the loss scaler of a checkpoint"). ValidationError for a
  // text that is no object, and below for a field that is not there or is something else.
  StateFields(const std::string& text, std::string what);

  bool has(const char* key) const { return object_.find(key) != nullptr; }
  double number(const char* key) const;
  int64_t integer(const char* key) const;
  std::string text(const char* key) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const Value& of_kind(const char* key, bool fits, const char* kind) const;
  const std::string what_;
  const Value object_;
};

}  // namespace ds
