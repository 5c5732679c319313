// An object of a config.json as families read it: what a key says, or a refusal that names file and
// key. A key that is null says nothing, but for sizes that may be absent.
#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

class HfObject {
 public:
  // Both must outlive it.
  HfObject(const rapidjson::Value& object, const std::string& path)
      : object_(object), path_(path) {}
  // Keeps each key that is asked for in `asked`, which must outlive it, too.
  HfObject(const rapidjson::Value& object, const std::string& path, std::set<std::string>& asked)
      : object_(object), path_(path), asked_(&asked) {}

  const std::string& path() const { return path_; }
  // Null pointer where the key is silent or null.
  const rapidjson::Value* find(std::string_view key) const;
  bool is_null(std::string_view key) const;    // and there
  std::vector<std::string_view> keys() const;  // that are not null
  // Nothing where the key is silent; DataError for what is no number, no object, or no list.
  std::optional<double> number(std::string_view key) const;
  std::optional<HfObject> object(std::string_view key) const;
  const rapidjson::Value* list(std::string_view key) const;

  // Unsupported.
  [[noreturn]] void refuse(const std::string& what) const;
  // Refuses a key that says anything else than `built`.
  void refuse_unless(std::string_view key, bool built) const;

 private:
  const rapidjson::Value& object_;
  const std::string& path_;
  std::set<std::string>* asked_ = nullptr;  // null: nobody wants to know
};

std::string_view text_of(const rapidjson::Value& value);

}  // namespace ds
