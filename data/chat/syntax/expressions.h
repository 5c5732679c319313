// The part of the parser that reads expressions.
#pragma once

#include "data/chat/syntax/token_cursor.h"
#include "data/chat/syntax/tree.h"
#include "data/chat/syntax/vocabulary.h"

namespace ds::chat {

class ExpressionParser {
 public:
  ExpressionParser(TokenCursor& tokens, Tree& tree, const Vocabulary& vocabulary)
      : tokens_(tokens), tree_(tree), vocabulary_(vocabulary) {}

  const Node* expression();
  const Node* without_condition() { return disjunction(); }
  // Expressions with commas between them are a tuple; one of them alone is itself. `end` is a name
  // that ends it, too.
  enum class Conditions { kAllowed, kNone };
  const Node* tuple(Conditions conditions, std::string_view end = "");
  enum class Targets { kNames, kNamespaces };
  const Node* target(Targets targets, std::string_view end = "");
  // What follows a value or, in front of a block, stands alone: name(arguments)|name ...
  const Node* filters(const Node* value, bool begins_inline);
  std::vector<Parameter> signature();
  void declare(const std::string& name);  // a name that is set

  Node* make(NodeKind kind, int line, std::vector<const Node*> parts = {});
  int& level() { return level_; }

  // Macros that are being read, and which of their special names are set and so are plain ones.
  struct OpenMacro {
    Node* node;
    std::vector<std::string> declared;
  };
  std::vector<OpenMacro>& open_macros() { return open_macros_; }

 private:
  const Node* disjunction();
  const Node* conjunction();
  const Node* negation();
  const Node* comparison();
  std::optional<Operator> skip_comparison();
  const Node* sum();
  const Node* concatenation();
  const Node* product();
  const Node* power();
  const Node* unary(bool with_filters);
  const Node* primary(Targets targets);
  const Node* name(Targets targets);
  const Node* texts();
  const Node* list();
  const Node* dict();
  const Node* postfix(const Node* node);
  const Node* with_filters(const Node* node);
  const Node* attribute(const Node* node);
  const Node* subscript(const Node* node);
  const Node* subscript_index();
  const Node* slice(int line, const Node* from);
  const Node* call(const Node* node);
  std::vector<Argument> arguments();
  Argument argument();
  const Node* test(const Node* node);
  bool begins_operand() const;
  bool ends_tuple(std::string_view end) const;
  const Node* target_item(Targets targets);
  void use(const std::string& name);

  TokenCursor& tokens_;
  Tree& tree_;
  const Vocabulary& vocabulary_;
  std::vector<OpenMacro> open_macros_;
  int level_ = 0;
};

}  // namespace ds::chat
