// Runs the tree of a template: statements write text, expressions make values. It has no way to
// files, the environment or the clock but what the caller hands in.
#pragma once

#include "data/chat/run/context.h"
#include "data/chat/syntax/tree.h"

namespace ds::chat {

// What {% generation %} blocks wrote, as bytes of the text.
struct TextRange {
  size_t begin = 0, end = 0;
};

class Interpreter final : public Context {
 public:
  Interpreter(const Tree& tree, const Dict& variables, Budget& budget, const ChatClock& clock);
  ~Interpreter() override;

  std::string run();
  const std::vector<TextRange>& generation() const { return generation_; }
  // The first generation block that wrote into a value, as in a macro: its place in the text is
  // unknown. 0: none did.
  int unplaced_generation_line() const { return unplaced_generation_line_; }
  int line() const { return line_; }  // where it is, or failed

  Value call(const Value& callee, Arguments arguments) override;
  Value filter(std::string_view name, const Value& value, Arguments arguments) override;
  bool test(std::string_view name, const Value& value, Arguments arguments) override;
  void keep(Value value) override { kept_.push_back(std::move(value)); }

 private:
  using ScopePtr = std::shared_ptr<Scope>;
  enum class Flow { kNext, kBreak, kContinue };
  class Level;     // counts recursion
  class Inside;    // a scope while it is the current one
  class Captured;  // output while it goes into a value

  // statements
  Flow execute(const Body& body);
  Flow execute(const Node& node);
  Flow execute_if(const Node& node);
  Flow execute_for(const Node& node, const Value& items, int depth0);
  Flow run_loop(const Node& node, const std::shared_ptr<Loop>& loop);
  std::function<std::optional<Value>()> drawer(const Node& node, const Value& source, Loop& loop);
  Flow execute_set_block(const Node& node);
  Flow execute_filter_block(const Node& node);
  Flow execute_with(const Node& node);
  void execute_generation(const Node& node);
  void call_block(const Node& node);
  void define_macro(const Node& node);
  void assign(const Node& target, Value value);
  void unpack(const Node& target, const Value& value);
  void write(std::string_view text);
  void write_value(const Value& value);

  // expressions
  Value evaluate(const Node& node);
  Value evaluate_name(const Node& node);
  Value evaluate_item(const Node& node);
  Value evaluate_compare(const Node& node);
  Value evaluate_math(const Node& node);
  Value evaluate_concat(const Node& node);
  Value evaluate_logic(const Node& node, bool stops_at);
  Value evaluate_condition(const Node& node);
  Value evaluate_dict(const Node& node);
  Values evaluate_all(const std::vector<const Node*>& nodes);
  Value evaluate_filter(const Node& node, const Value& value);
  Value evaluate_filters(const Node* outermost, Value value);
  Value evaluate_call(const Node& node, const Value* caller);
  Arguments evaluate_arguments(const Node& node);
  void unpack_dict(const Value& value, Arguments& out);

  Value call_macro(const Macro& macro, Arguments arguments);
  void bind_macro(const Node& node, Arguments arguments, Scope& scope);
  Value call_loop(const Loop& loop, const Arguments& arguments);
  Value make_macro(const Node& node);
  ScopePtr new_scope(const ScopePtr& outer, const std::vector<std::string>& hidden);

  const Tree& tree_;
  const Dict& variables_;
  std::string text_;
  std::string* out_ = &text_;
  ScopePtr scope_;
  int line_ = 1;
  int recursion_ = 0;  // of nodes
  int calls_ = 0;      // of macros and loops
  std::vector<TextRange> generation_;
  int unplaced_generation_line_ = 0;
  bool in_generation_ = false;
  std::vector<Value> kept_;
  std::vector<ScopePtr> kept_scopes_;
};

}  // namespace ds::chat
