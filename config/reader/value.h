// A configuration document as a tree that remembers where every value was written. Lists and
// objects keep their order; objects have no duplicate keys (the reader refuses them). Depth is
// bounded by the reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// An origin is where a value comes from. `source` is a file name or a description such as "command
// line"; line and column count from 1 and are 0 if the source has no lines.
struct Origin {
  std::shared_ptr<const std::string> source;
  int line = 0;
  int column = 0;

  // "train.json:3:14", "command line", or "default" for an origin without a source.
  std::string text() const;
};

struct Member;

class Value {
 public:
  // kNumber is every finite number that is not written as an integer within int64.
  enum class Kind { kNull, kBoolean, kInteger, kNumber, kString, kList, kObject };

  // Out of line: a Member holds a Value and the other way round.
  Value();
  ~Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  static Value null(Origin origin = {});
  static Value boolean(bool value, Origin origin = {});
  static Value integer(int64_t value, Origin origin = {});
  static Value number(double value, Origin origin = {});
  static Value string(std::string value, Origin origin = {});
  static Value list();
  static Value list(std::vector<Value> items, Origin origin = {});
  static Value object(Origin origin = {});

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool as_boolean() const { return integer_ != 0; }
  int64_t as_integer() const { return integer_; }
  double as_number() const;  // of kInteger or kNumber
  const std::string& as_string() const { return text_; }
  const std::vector<Value>& items() const { return items_; }
  std::vector<Value>& items() { return items_; }
  const std::vector<Member>& members() const { return members_; }
  std::vector<Member>& members() { return members_; }
  const Origin& origin() const { return origin_; }
  void set_origin(Origin origin) { origin_ = std::move(origin); }

  const Value* find(std::string_view key) const;  // null pointer when absent or not an object
  Value* find(std::string_view key);
  const Member* find_member(std::string_view key) const;
  Value& set(std::string_view key, Value value);  // adds or replaces; returns the stored value
  bool erase(std::string_view key);

  // "an integer", "a string", ...: for messages.
  std::string_view kind_name() const;
  // A short one-line rendering for messages, cut after about 60 characters.
  std::string excerpt() const;

 private:
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;
  std::vector<Value> items_;
  std::vector<Member> members_;
  Origin origin_;
};

struct Member {
  std::string key;
  Value value;
  Origin origin;  // of the key
};

// Equal kinds and contents; origins do not matter, the order of members does not matter.
bool same_content(const Value& a, const Value& b);

// JSON text, two spaces of indent, members in stored order, numbers in the shortest form that reads
// back to the same bits, ending with a newline.
std::string to_json(const Value& value);
// The same on one line without spaces or newline.
std::string to_compact_json(const Value& value);

// The value without the values of secret keys (secret_keys.h), however deep, which are `instead`
// then, and without the user and the password of URLs.
Value without_secrets(const Value& value, const Value& instead);

}  // namespace ds
