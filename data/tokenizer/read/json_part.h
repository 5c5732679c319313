// One part of a tokenizer.json, and the file that errors about it name.
#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <string>
#include <vector>

namespace ds {

class JsonPart {
 public:
  using Json = rapidjson::Value;
  // All of them outlive this. `name`: what the part is, where it does not say its type.
  JsonPart(const std::string& file, const Json& value, const char* name)
      : file_(&file), value_(&value), name_(name) {}

  [[noreturn]] void refuse(const std::string& defect) const;     // DataError
  [[noreturn]] void unsupported(const std::string& what) const;  // Unsupported

  const Json& value() const { return *value_; }
  // A member that is there and not null, the last one of a key that stands twice; nothing of what
  // is no object.
  std::optional<JsonPart> member(const char* key) const;
  JsonPart require(const char* key) const;
  std::vector<JsonPart> list(const char* key) const;  // DataError unless it is a list
  std::string type() const;                           // its "type", or else its name

  // DataError where the member is of another kind; without a fallback, where it is not there.
  bool flag(const char* key, bool fallback) const;
  std::string text(const char* key) const;
  // The characters of a string, whatever it is part of; DataError unless they are UTF-8, which
  // RapidJSON lets half a pair of surrogates not be.
  std::string characters_of(const Json& string) const;
  std::string text(const char* key, const std::string& fallback) const;
  size_t count(const char* key, size_t fallback) const;  // at most 2^31
  // One character, of at most four bytes.
  std::string character(const char* key) const;

 private:
  const std::string* file_;
  const Json* value_;
  const char* name_;
};

// Calls read() for each part of a Sequence, and for what is none. DataError for sequences that are
// nested deeper than any sane file has them.
template <class Read>
void for_each_in_sequence(const JsonPart& part, const char* key, const Read& read, int depth = 0) {
  constexpr int kDeepest = 8;
  if (part.type() != "Sequence") return read(part);
  if (depth >= kDeepest) part.refuse("sequences are nested too deep");
  for (const JsonPart& inner : part.list(key)) for_each_in_sequence(inner, key, read, depth + 1);
}

}  // namespace ds
