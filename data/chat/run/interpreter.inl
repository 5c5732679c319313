// What the pieces of the interpreter hold while a node runs.
#pragma once

#include <fmt/format.h>

#include "data/chat/run/interpreter.h"

namespace ds::chat {

class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : recursion_(interpreter.recursion_) {
    if (recursion_ >= kDeepest) throw Fault("expressions and statements are nested too deeply");
    ++recursion_;
  }
  ~Level() { --recursion_; }
  Level(const Level&) = delete;  // counts its own place

 private:
  static constexpr int kDeepest = 1200;  // so that the stack of a thread holds them
  int& recursion_;
};

class Interpreter::Inside {
 public:
  Inside(Interpreter& interpreter, ScopePtr scope)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
  ~Inside() { interpreter_.scope_ = std::move(outer_); }
  Inside(const Inside&) = delete;  // puts the outer scope back once

 private:
  Interpreter& interpreter_;
  ScopePtr outer_;
};

class Interpreter::Captured {
 public:
  explicit Captured(Interpreter& interpreter)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.out_, &text_)) {}
  ~Captured() { interpreter_.out_ = outer_; }
  Captured(const Captured&) = delete;  // the output goes to its own text

  Value take() {
    interpreter_.budget().give(text_.size());  // as output; from now on it counts as a value
    interpreter_.out_ = outer_;
    return interpreter_.text(std::move(text_));
  }

 private:
  Interpreter& interpreter_;
  std::string text_;
  std::string* outer_;
};

}  // namespace ds::chat
