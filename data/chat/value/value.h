// Values of chat templates: what JSON has, and what Jinja makes of it. They are immutable but for
// namespaces and iterators, so copies are cheap. Values that a budget paid for must not outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat/value/budget.h"

namespace ds::chat {

enum class Kind {
  kAbsent,  // an argument that a call leaves out
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kList,
  kTuple,
  kDict,
  kView,
  kIterator,
  kRange,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
};

class Value;
struct Text;
struct Sequence;
struct Dict;
struct View;
struct Iterator;
struct Namespace;
struct Loop;      // data/chat/value/value_objects.h
struct Macro;     // the same
struct Function;  // the same

struct Absent {};
struct None {};
// The message is what an operation other than printing says.
struct Undefined {
  std::shared_ptr<const Text> message;
};
struct Range {
  static constexpr int64_t kFarthest = int64_t{1} << 61;  // what its numbers and steps may be
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
  int64_t at(int64_t index) const { return start + index * step; }
};

using Values = std::vector<Value>;

class Value {
 public:
  Value() : data_(None{}) {}
  Value(std::shared_ptr<const Text> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<const Sequence> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<const Dict> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<const View> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<Iterator> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<Namespace> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<Loop> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<const Macro> data) : data_(std::move(data)) {}
  Value(std::shared_ptr<const Function> data) : data_(std::move(data)) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(Range value) : data_(value) {}
  static Value absent() { return Value(Data(Absent{})); }
  static Value undefined(Budget* budget, std::string message);

  Kind kind() const;
  bool is(Kind kind) const { return this->kind() == kind; }
  bool given() const { return !is(Kind::kAbsent); }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }
  bool is_integer() const { return is(Kind::kInt) || is(Kind::kBool); }  // a bool is one in Python
  bool is_number() const { return is_integer() || is(Kind::kFloat); }

  // The caller knows the kind.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is(Kind::kBool) ? as_bool() : std::get<int64_t>(data_); }
  double as_double() const {
    return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const std::string& as_text() const;
  bool is_markup() const;  // a text that counts as escaped
  const Values& items() const;
  const Dict& as_dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  const View& as_view() const { return *std::get<std::shared_ptr<const View>>(data_); }
  const Range& as_range() const { return std::get<Range>(data_); }
  const std::string& undefined_message() const;
  template <class T>
  const std::shared_ptr<T>& shared() const {
    return std::get<std::shared_ptr<T>>(data_);
  }
  const void* address() const;  // of what is shared; null for plain data

  int depth() const;  // how many lists, say, lie in each other
  bool is_true() const;
  // The name that Python's messages call the type by.
  std::string_view type_name() const;

 private:
  using Data =
      std::variant<Absent, Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
                   std::shared_ptr<const View>, Range, std::shared_ptr<Iterator>,
                   std::shared_ptr<Namespace>, std::shared_ptr<Loop>, std::shared_ptr<const Macro>,
                   std::shared_ptr<const Function>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

struct Text {
  std::string bytes;
  bool markup = false;
  Charge charge;
};

struct Sequence {
  enum class Form { kList, kTuple, kGroup };  // a group is a tuple with names, of groupby
  Values items;
  Form form = Form::kList;
  int depth = 1;
  Charge charge;
};

// Keeps the order in which keys came.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string_view, size_t> index;  // of keys that are texts
  int depth = 1;
  Charge charge;

  explicit Dict(Budget* budget) : charge(budget, 0) {}
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

// dict.keys(), values() and items().
struct View {
  enum class Part { kKeys, kValues, kItems };
  std::shared_ptr<const Dict> dict;
  Part part = Part::kKeys;
};

// What Python's generators are: it can be gone through once.
struct Iterator {
  Values items;
  size_t next = 0;
  int depth = 1;
  Charge charge;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> names;
  Value* find(std::string_view name);
};

// Values of a budget; null: nobody's, as variables of the caller.
Value make_text(Budget* budget, std::string bytes);
Value make_markup(Budget* budget, std::string bytes);
Value make_sequence(Budget* budget, Values items, Sequence::Form form = Sequence::Form::kList);
Value make_tuple(Budget* budget, Values items);
Value make_iterator(Budget* budget, Values items);

// The last of equal keys counts, in the place of the first. Fault for a key that has no hash.
class DictMaker {
 public:
  explicit DictMaker(Budget* budget) : budget_(budget), dict_(std::make_shared<Dict>(budget)) {}
  void set(Value key, Value value);
  Value finish();

 private:
  Budget* budget_;
  std::shared_ptr<Dict> dict_;
};

void check_hashable(const Value& key);

}  // namespace ds::chat
