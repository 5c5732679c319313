// What functions, filters and tests of templates need of the interpreter.
#pragma once

#include <ctime>
#include <functional>

#include "data/chat/value/print.h"
#include "data/chat/value/value_compare.h"
#include "data/chat/value/value_objects.h"

namespace ds {

// The time that strftime_now prints, in the zone that it should be printed in.
using ChatClock = std::function<std::tm()>;

}  // namespace ds

namespace ds::chat {

// Arguments of a call. A function gets them in the order of its signature, absent ones included.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value& operator[](size_t index) const { return positional[index]; }
  bool has(size_t index) const { return positional[index].given(); }
  const Value* find(std::string_view name) const;
};

class Context {
 public:
  Context(Budget& budget, const ChatClock& clock) : budget_(budget), clock_(clock) {}
  virtual ~Context() = default;
  Context(const Context&) = delete;  // values of a rendering refer to it

  virtual Value call(const Value& callee, Arguments arguments) = 0;
  virtual Value filter(std::string_view name, const Value& value, Arguments arguments) = 0;
  virtual bool test(std::string_view name, const Value& value, Arguments arguments) = 0;
  // Values that could lie in one another in a circle live until the rendering ends.
  virtual void keep(Value value) = 0;

  Budget& budget() const { return budget_; }
  const ChatClock& clock() const { return clock_; }
  Value text(std::string bytes) const { return make_text(&budget_, std::move(bytes)); }
  Value text(std::string_view bytes) const { return make_text(&budget_, std::string(bytes)); }
  Value undefined(std::string message) const {
    return Value::undefined(&budget_, std::move(message));
  }
  Value list(Values items) const { return make_sequence(&budget_, std::move(items)); }
  Value tuple(Values items) const { return make_tuple(&budget_, std::move(items)); }
  Value iterator(Values items) const { return make_iterator(&budget_, std::move(items)); }
  std::string str(const Value& value) const { return to_str(budget_, value); }
  std::string repr(const Value& value) const { return to_repr(budget_, value); }

 private:
  Budget& budget_;
  const ChatClock& clock_;
};

// One function, filter or method. The signature lists parameters by comma: "name" is required,
// "name=" is not, "/" in front forbids keywords, and "..." takes arguments as they come. A method
// without `run` is one that Python has and this program does not; with "!" it would change its
// object, which templates may not.
struct Native {
  std::string_view name;
  std::string_view signature;
  Value (*run)(Context& context, const Value& self, const Arguments& arguments);
};
Value call_native(Context& context, const Native& native, const Value& self, Arguments arguments);

// Names of a block of statements. An inner scope reads outer ones and sets its own. An absent
// value hides what is outside.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> names;
  Charge charge;

  Scope(std::shared_ptr<Scope> outer, Budget* budget);
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

// What a `for` goes over. An iterator is used up. Fault for a value that cannot be gone through.
Values items_of(Context& context, const Value& value);
int64_t length_of(const Value& value);  // Python's len
[[noreturn]] void refuse_type(std::string_view operation, const Value& value);

// The text, number or truth that an argument must be. Fault names the operation.
const std::string& text_of(std::string_view operation, const Value& value);
int64_t int_of(std::string_view operation, const Value& value);
// A size that may be no more than can be useful.
size_t size_of(std::string_view operation, const Value& value);

}  // namespace ds::chat
