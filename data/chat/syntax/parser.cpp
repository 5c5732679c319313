#include "data/chat/syntax/parser.h"

#include <algorithm>
#include <array>

#include "data/chat/syntax/expressions.h"
#include "data/chat/syntax/scopes.h"

namespace ds::chat {
namespace {

constexpr std::array<std::string_view, 9> kForeignStatements{
    "block", "extends", "include", "import", "from", "autoescape", "do", "trans", "debug"};

class Parser {
 public:
  Parser(std::string_view source, const Vocabulary& vocabulary)
      : tokens_(tokens_of(source)), expressions_(tokens_, *tree_, vocabulary) {}

  std::unique_ptr<Tree> run() {
    tree_->body = body({});
    return std::move(tree_);
  }

 private:
  using Conditions = ExpressionParser::Conditions;
  using Targets = ExpressionParser::Targets;
  using Ends = std::vector<std::string_view>;

  Node* make(NodeKind kind, int line, std::vector<const Node*> parts = {}) {
    return expressions_.make(kind, line, std::move(parts));
  }

  // Statements up to one of the ends, whose name is the current token then; without ends, up to
  // the end of the template.
  Body body(const Ends& ends) {
    Body out;
    while (!tokens_.is(TokenKind::kEnd)) {
      const int line = tokens_.line();
      if (tokens_.is(TokenKind::kData)) {
        Node* node = make(NodeKind::kText, line);
        node->name = tokens_.next().text;
        out.push_back(node);
      } else if (tokens_.is(TokenKind::kPrintBegin)) {
        tokens_.next();
        out.push_back(make(NodeKind::kPrint, line, {expressions_.tuple(Conditions::kAllowed)}));
        tokens_.expect(TokenKind::kPrintEnd, "'}}'");
      } else {
        tokens_.next();
        if (std::ranges::any_of(ends, [&](auto end) { return tokens_.is_name(end); })) return out;
        out.push_back(statement());
        tokens_.expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (!ends.empty()) tokens_.refuse(fmt::format("expected '{}'", fmt::join(ends, "' or '")));
    return out;
  }

  // The body of a statement whose head ends here, and the name that ends it, which is skipped.
  Body block(const Ends& ends, std::string* end = nullptr) {
    tokens_.skip_operator(":");
    tokens_.expect(TokenKind::kBlockEnd, "'%}'");
    Body out = body(ends);
    const std::string found = tokens_.next().text;
    if (end != nullptr) *end = found;
    return out;
  }

  const Node* statement() {
    const ParseLevel deeper(expressions_.level(), tokens_.line());
    if (!tokens_.is(TokenKind::kName)) tokens_.refuse("expected a statement");
    const int line = tokens_.line();
    const std::string name = tokens_.next().text;
    if (name == "for") return for_loop(line);
    if (name == "if") return condition(line);
    if (name == "set") return assignment(line);
    if (name == "macro") return macro(line);
    if (name == "call") return call_block(line);
    if (name == "filter") return filter_block(line);
    if (name == "with") return with_block(line);
    if (name == "generation") return generation(line);
    if (name == "break" || name == "continue") return jump(name, line);
    if (name == "print") return print(line);
    if (std::ranges::find(kForeignStatements, name) != kForeignStatements.end())
      throw UnsupportedFault(line, fmt::format("the statement '{}' is not supported", name));
    throw SyntaxFault(line, fmt::format("unknown statement '{}'", name));
  }

  const Node* print(int line) {
    const Node* value = expressions_.expression();
    return make(NodeKind::kPrint, line, {value});
  }

  const Node* for_loop(int line) {
    Node* node = make(NodeKind::kFor, line);
    node->target = expressions_.target(Targets::kNames, "in");
    tokens_.expect_name("in");
    node->parts.push_back(expressions_.tuple(Conditions::kNone, "recursive"));
    node->parts.push_back(tokens_.skip_name("if") ? expressions_.expression() : nullptr);
    node->recursive = tokens_.skip_name("recursive");
    ++loops_;
    std::string end;
    node->branches.push_back(block({"endfor", "else"}, &end));
    --loops_;
    node->branches.push_back(end == "else" ? block({"endfor"}) : Body{});
    return node;
  }

  const Node* condition(int line) {
    Node* node = make(NodeKind::kIf, line);
    std::string end;
    do {
      node->parts.push_back(expressions_.tuple(Conditions::kNone));
      node->branches.push_back(block({"elif", "else", "endif"}, &end));
    } while (end == "elif");
    if (end == "else") node->branches.push_back(block({"endif"}));
    return node;
  }

  const Node* assignment(int line) {
    const Node* target = expressions_.target(Targets::kNamespaces);
    if (tokens_.skip_operator("=")) {
      Node* node = make(NodeKind::kSet, line, {expressions_.tuple(Conditions::kAllowed)});
      node->target = target;
      return node;
    }
    Node* node = make(NodeKind::kSetBlock, line, {expressions_.filters(nullptr, false)});
    node->target = target;
    node->branches.push_back(block({"endset"}));
    return node;
  }

  // Bodies of macros run elsewhere: loops around them are none of theirs.
  Body macro_body(Node* node, const Ends& ends) {
    const int loops = std::exchange(loops_, 0);
    expressions_.open_macros().push_back({node, {}});
    for (const Parameter& parameter : node->parameters) expressions_.declare(parameter.name);
    Body out = block(ends);
    expressions_.open_macros().pop_back();
    loops_ = loops;
    return out;
  }

  const Node* macro(int line) {
    Node* node = make(NodeKind::kMacro, line);
    node->name = tokens_.expect_any_name();
    expressions_.declare(node->name);
    node->parameters = expressions_.signature();
    node->branches.push_back(macro_body(node, {"endmacro"}));
    return node;
  }

  const Node* call_block(int line) {
    Node* caller = make(NodeKind::kMacro, line);
    if (tokens_.is_operator("(")) caller->parameters = expressions_.signature();
    const Node* call = expressions_.expression();
    if (call->kind != NodeKind::kCall) throw SyntaxFault(line, "a call block wants a call");
    caller->branches.push_back(macro_body(caller, {"endcall"}));
    return make(NodeKind::kCallBlock, line, {call, caller});
  }

  const Node* filter_block(int line) {
    Node* node = make(NodeKind::kFilterBlock, line, {expressions_.filters(nullptr, true)});
    node->branches.push_back(block({"endfilter"}));
    return node;
  }

  const Node* with_block(int line) {
    Node* node = make(NodeKind::kWith, line);
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      if (!node->parts.empty()) tokens_.expect_operator(",");
      node->parts.push_back(expressions_.target(Targets::kNames));
      tokens_.expect_operator("=");
      node->parts.push_back(expressions_.expression());
    }
    node->branches.push_back(block({"endwith"}));
    return node;
  }

  const Node* generation(int line) {
    Node* node = make(NodeKind::kGeneration, line);
    const int loops = std::exchange(loops_, 0);
    node->branches.push_back(block({"endgeneration"}));
    loops_ = loops;
    return node;
  }

  const Node* jump(const std::string& name, int line) {
    if (loops_ == 0) throw SyntaxFault(line, fmt::format("'{}' outside of a loop", name));
    return make(name == "break" ? NodeKind::kBreak : NodeKind::kContinue, line);
  }

  std::unique_ptr<Tree> tree_ = std::make_unique<Tree>();
  TokenCursor tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;  // around the statement
};

}  // namespace

std::unique_ptr<Tree> parse_template(std::string_view source, const Vocabulary& vocabulary) {
  std::unique_ptr<Tree> tree = Parser(source, vocabulary).run();
  find_hidden_names(*tree);
  return tree;
}

}  // namespace ds::chat
