// One part of a tokenizer.json, and the file that errors about it name.
#pragma once

#include <fmt/format.h>
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
// nested deeper than any sane file has them, or have more parts together.
template <class Read>
void for_each_in_sequence(const JsonPart& part, const char* key, const Read& read) {
  constexpr int kDeepest = 8;
  constexpr size_t kMostParts = 256;  // each goes over all of a text
  size_t parts = 0;
  const auto visit = [&](const auto& self, const JsonPart& at, int depth) -> void {
    if (at.type() != "Sequence") {
      if (++parts > kMostParts)
        at.refuse(fmt::format("sequences of more than {} parts", kMostParts));
      return read(at);
    }
    if (depth >= kDeepest) at.refuse("sequences are nested too deep");
    for (const JsonPart& inner : at.list(key)) self(self, inner, depth + 1);
  };
  visit(visit, part, 0);
}

}  // namespace ds
