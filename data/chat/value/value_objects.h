// Values that a running template makes of its own parts: macros, loops and functions.
#pragma once

#include <functional>

#include "data/chat/value/value.h"

namespace ds::chat {

struct Node;    // data/chat/syntax/tree.h
struct Native;  // data/chat/run/context.h
struct Scope;   // the same

struct Function {
  const Native* native = nullptr;
  Value self;
  Charge charge;
};
Value make_function(Budget* budget, const Native* native, Value self);

struct Macro {
  const Node* node = nullptr;
  std::shared_ptr<Scope> scope;  // where it is defined
  std::string name;              // empty: the body of a call block
};

// The state of a `for`, which its body sees as `loop`.
struct Loop {
  explicit Loop(Budget* budget) : charge_(budget, kBytes) {}

  std::function<std::optional<Value>()> draw;  // the next item, if there is one
  std::optional<int64_t> length;               // if it is known beforehand
  std::optional<Value> previous, current, next;
  std::optional<Value> last_changed;
  int64_t index0 = -1;
  int depth0 = 0;  // of recursion
  int depth = 1;   // of the values
  const Node* node = nullptr;
  std::shared_ptr<Scope> scope;  // of the statement

  bool advance();
  const std::optional<Value>& peek();
  int64_t count();  // draws all that is left if the length is unknown

 private:
  static constexpr size_t kBytes = 512;  // of itself and of what its functions hold
  // Fault while an item is being drawn: a condition of the loop asks for what it decides itself.
  std::optional<Value> drawn();
  bool drawing_ = false;
  Charge charge_;
};

}  // namespace ds::chat
