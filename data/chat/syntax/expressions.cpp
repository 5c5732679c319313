#include "data/chat/syntax/expressions.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ds::chat {
namespace {

bool is_constant_name(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{"true",  "True", "false",
                                                   "False", "none", "None"};
  return std::ranges::find(kNames, name) != kNames.end();
}

struct Sign {
  std::string_view text;
  Operator meaning;
};

template <size_t kCount>
std::optional<Operator> skip_sign(TokenCursor& tokens, const std::array<Sign, kCount>& signs) {
  for (const auto& [text, meaning] : signs) {
    if (tokens.skip_operator(text)) return meaning;
  }
  return std::nullopt;
}

}  // namespace

Node* ExpressionParser::make(NodeKind kind, int line, std::vector<const Node*> parts) {
  Node& node = tree_.nodes.emplace_back();
  node.kind = kind;
  node.line = line;
  node.parts = std::move(parts);
  return &node;
}

const Node* ExpressionParser::expression() {
  const ParseLevel deeper(level_, tokens_.line());
  const Node* node = disjunction();
  while (tokens_.is_name("if")) {
    const int line = tokens_.next().line;
    const Node* condition = disjunction();
    const Node* otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    node = make(NodeKind::kCondition, line, {node, condition, otherwise});
  }
  return node;
}

const Node* ExpressionParser::disjunction() {
  const int line = tokens_.line();
  std::vector<const Node*> parts{conjunction()};
  while (tokens_.skip_name("or")) parts.push_back(conjunction());
  return parts.size() == 1 ? parts[0] : make(NodeKind::kOr, line, std::move(parts));
}

const Node* ExpressionParser::conjunction() {
  const int line = tokens_.line();
  std::vector<const Node*> parts{negation()};
  while (tokens_.skip_name("and")) parts.push_back(negation());
  return parts.size() == 1 ? parts[0] : make(NodeKind::kAnd, line, std::move(parts));
}

const Node* ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const ParseLevel deeper(level_, tokens_.line());
  const int line = tokens_.next().line;
  return make(NodeKind::kNot, line, {negation()});
}

std::optional<Operator> ExpressionParser::skip_comparison() {
  constexpr std::array kSigns{Sign{"==", Operator::kEqual},     Sign{"!=", Operator::kNotEqual},
                              Sign{"<=", Operator::kLessEqual}, Sign{">=", Operator::kGreaterEqual},
                              Sign{"<", Operator::kLess},       Sign{">", Operator::kGreater}};
  if (tokens_.skip_name("in")) return Operator::kIn;
  if (tokens_.is_name("not") && TokenCursor::is_name(tokens_.ahead(), "in")) {
    tokens_.next();
    tokens_.next();
    return Operator::kNotIn;
  }
  return skip_sign(tokens_, kSigns);
}

const Node* ExpressionParser::comparison() {
  const int line = tokens_.line();
  std::vector<const Node*> parts{sum()};
  std::vector<Operator> operators;
  while (const auto sign = skip_comparison()) {
    operators.push_back(*sign);
    parts.push_back(sum());
  }
  if (operators.empty()) return parts[0];
  Node* node = make(NodeKind::kCompare, line, std::move(parts));
  node->operators = std::move(operators);
  return node;
}

const Node* ExpressionParser::sum() {
  constexpr std::array kSigns{Sign{"+", Operator::kAdd}, Sign{"-", Operator::kSubtract}};
  const int line = tokens_.line();
  std::vector<const Node*> parts{concatenation()};
  std::vector<Operator> operators;
  while (const auto sign = skip_sign(tokens_, kSigns)) {
    operators.push_back(*sign);
    parts.push_back(concatenation());
  }
  if (operators.empty()) return parts[0];
  Node* node = make(NodeKind::kMath, line, std::move(parts));
  node->operators = std::move(operators);
  return node;
}

const Node* ExpressionParser::concatenation() {
  const int line = tokens_.line();
  std::vector<const Node*> parts{product()};
  while (tokens_.skip_operator("~")) parts.push_back(product());
  return parts.size() == 1 ? parts[0] : make(NodeKind::kConcat, line, std::move(parts));
}

const Node* ExpressionParser::product() {
  constexpr std::array kSigns{Sign{"*", Operator::kMultiply}, Sign{"/", Operator::kDivide},
                              Sign{"//", Operator::kFloorDivide}, Sign{"%", Operator::kModulo}};
  const int line = tokens_.line();
  std::vector<const Node*> parts{power()};
  std::vector<Operator> operators;
  while (const auto sign = skip_sign(tokens_, kSigns)) {
    operators.push_back(*sign);
    parts.push_back(power());
  }
  if (operators.empty()) return parts[0];
  Node* node = make(NodeKind::kMath, line, std::move(parts));
  node->operators = std::move(operators);
  return node;
}

const Node* ExpressionParser::power() {
  const int line = tokens_.line();
  std::vector<const Node*> parts{unary(true)};
  while (tokens_.skip_operator("**")) parts.push_back(unary(true));
  if (parts.size() == 1) return parts[0];
  const size_t count = parts.size() - 1;
  Node* node = make(NodeKind::kMath, line, std::move(parts));
  node->operators.assign(count, Operator::kPower);
  return node;
}

const Node* ExpressionParser::unary(bool with_filters) {
  const ParseLevel deeper(level_, tokens_.line());
  const int line = tokens_.line();
  const Node* node = nullptr;
  if (tokens_.skip_operator("-")) {
    node = make(NodeKind::kNegative, line, {unary(false)});
  } else if (tokens_.skip_operator("+")) {
    node = make(NodeKind::kPositive, line, {unary(false)});
  } else {
    node = primary(Targets::kNames);
  }
  node = postfix(node);
  return with_filters ? this->with_filters(node) : node;
}

const Node* ExpressionParser::primary(Targets targets) {
  const int line = tokens_.line();
  if (tokens_.is(TokenKind::kName)) return name(targets);
  if (tokens_.is(TokenKind::kText)) return texts();
  if (tokens_.is(TokenKind::kNumber)) {
    Node* node = make(NodeKind::kConstant, line);
    node->value = tokens_.next().value;
    return node;
  }
  if (tokens_.skip_operator("(")) {
    const Node* inside =
        tokens_.is_operator(")") ? make(NodeKind::kTuple, line) : tuple(Conditions::kAllowed);
    tokens_.expect_operator(")");
    return inside;
  }
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  tokens_.refuse("expected an expression");
}

const Node* ExpressionParser::name(Targets targets) {
  const int line = tokens_.line();
  const std::string text = tokens_.next().text;
  if (is_constant_name(text)) {
    Node* node = make(NodeKind::kConstant, line);
    if (text[0] != 'n' && text[0] != 'N') node->value = Value(text[0] == 't' || text[0] == 'T');
    return node;
  }
  if (targets == Targets::kNamespaces && tokens_.skip_operator(".")) {
    Node* node = make(NodeKind::kNamespaceAttribute, line);
    node->name = text;
    node->value = make_text(nullptr, tokens_.expect_any_name());
    return node;
  }
  Node* node = make(NodeKind::kName, line);
  node->name = text;
  use(text);
  return node;
}

const Node* ExpressionParser::texts() {
  Node* node = make(NodeKind::kConstant, tokens_.line());
  std::string text;
  while (tokens_.is(TokenKind::kText)) text += tokens_.next().text;
  node->value = make_text(nullptr, std::move(text));
  return node;
}

const Node* ExpressionParser::list() {
  Node* node = make(NodeKind::kList, tokens_.line());
  tokens_.expect_operator("[");
  while (!tokens_.is_operator("]")) {
    node->parts.push_back(expression());
    if (!tokens_.is_operator("]")) tokens_.expect_operator(",");
  }
  tokens_.expect_operator("]");
  return node;
}

const Node* ExpressionParser::dict() {
  Node* node = make(NodeKind::kDict, tokens_.line());
  tokens_.expect_operator("{");
  while (!tokens_.is_operator("}")) {
    node->parts.push_back(expression());
    tokens_.expect_operator(":");
    node->parts.push_back(expression());
    if (!tokens_.is_operator("}")) tokens_.expect_operator(",");
  }
  tokens_.expect_operator("}");
  return node;
}

bool ExpressionParser::ends_tuple(std::string_view end) const {
  return tokens_.is(TokenKind::kPrintEnd) || tokens_.is(TokenKind::kBlockEnd) ||
         tokens_.is_operator(")") || (!end.empty() && tokens_.is_name(end));
}

const Node* ExpressionParser::tuple(Conditions conditions, std::string_view end) {
  const int line = tokens_.line();
  std::vector<const Node*> parts;
  bool commas = false;
  while (!ends_tuple(end)) {
    parts.push_back(conditions == Conditions::kAllowed ? expression() : disjunction());
    if (!tokens_.skip_operator(",")) break;
    commas = true;
  }
  if (parts.empty()) tokens_.refuse("expected an expression");
  return commas ? make(NodeKind::kTuple, line, std::move(parts)) : parts[0];
}

const Node* ExpressionParser::target_item(Targets targets) {
  const ParseLevel deeper(level_, tokens_.line());
  const int line = tokens_.line();
  if (tokens_.skip_operator("(")) {
    const Node* inside = target(Targets::kNames);
    tokens_.expect_operator(")");
    return inside;
  }
  if (!tokens_.is(TokenKind::kName) || is_constant_name(tokens_.current().text))
    tokens_.refuse("expected a name to assign to");
  const std::string text = tokens_.next().text;
  if (targets == Targets::kNamespaces && tokens_.skip_operator(".")) {
    Node* node = make(NodeKind::kNamespaceAttribute, line);
    node->name = text;
    node->value = make_text(nullptr, tokens_.expect_any_name());
    return node;
  }
  declare(text);
  Node* node = make(NodeKind::kName, line);
  node->name = text;
  return node;
}

const Node* ExpressionParser::target(Targets targets, std::string_view end) {
  const int line = tokens_.line();
  std::vector<const Node*> parts{target_item(targets)};
  bool commas = false;
  while (tokens_.skip_operator(",")) {
    commas = true;
    if (ends_tuple(end) || tokens_.is_operator("=")) break;
    parts.push_back(target_item(targets));
  }
  return commas ? make(NodeKind::kTuple, line, std::move(parts)) : parts[0];
}

const Node* ExpressionParser::postfix(const Node* node) {
  for (;;) {
    if (tokens_.is_operator(".")) {
      node = attribute(node);
    } else if (tokens_.is_operator("[")) {
      node = subscript(node);
    } else if (tokens_.is_operator("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

const Node* ExpressionParser::with_filters(const Node* node) {
  for (;;) {
    if (tokens_.is_operator("|")) {
      node = filters(node, false);
    } else if (tokens_.is_name("is")) {
      node = test(node);
    } else if (tokens_.is_operator("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

const Node* ExpressionParser::attribute(const Node* node) {
  const int line = tokens_.next().line;
  if (tokens_.is(TokenKind::kName)) {
    Node* out = make(NodeKind::kAttribute, line, {node});
    out->name = tokens_.next().text;
    return out;
  }
  if (!tokens_.is(TokenKind::kNumber) || !tokens_.current().value.is(Kind::kInt))
    tokens_.refuse("expected the name of an attribute");
  Node* index = make(NodeKind::kConstant, line);
  index->value = tokens_.next().value;
  return make(NodeKind::kItem, line, {node, index});
}

const Node* ExpressionParser::subscript(const Node* node) {
  const int line = tokens_.next().line;
  std::vector<const Node*> indices;
  while (!tokens_.is_operator("]")) {
    if (!indices.empty()) tokens_.expect_operator(",");
    indices.push_back(subscript_index());
  }
  tokens_.expect_operator("]");
  const Node* index =
      indices.size() == 1 ? indices[0] : make(NodeKind::kTuple, line, std::move(indices));
  return make(NodeKind::kItem, line, {node, index});
}

const Node* ExpressionParser::subscript_index() {
  const int line = tokens_.line();
  if (tokens_.is_operator(":")) return slice(line, nullptr);
  const Node* node = expression();
  return tokens_.is_operator(":") ? slice(line, node) : node;
}

const Node* ExpressionParser::slice(int line, const Node* from) {
  tokens_.expect_operator(":");
  const auto bound = [&]() -> const Node* {
    const bool none =
        tokens_.is_operator(":") || tokens_.is_operator("]") || tokens_.is_operator(",");
    return none ? nullptr : expression();
  };
  const Node* to = bound();
  const Node* step = tokens_.skip_operator(":") ? bound() : nullptr;
  return make(NodeKind::kSlice, line, {from, to, step});
}

const Node* ExpressionParser::call(const Node* node) {
  Node* out = make(NodeKind::kCall, tokens_.line(), {node});
  out->arguments = arguments();
  return out;
}

std::vector<Argument> ExpressionParser::arguments() {
  using Form = Argument::Form;
  tokens_.expect_operator("(");
  std::vector<Argument> out;
  const auto has = [&](Form form) {
    return std::ranges::any_of(out, [&](const Argument& a) { return a.form == form; });
  };
  while (!tokens_.is_operator(")")) {
    const int line = tokens_.line();
    Argument next = argument();
    const bool late_list = next.form == Form::kUnpackedList && has(Form::kUnpackedList);
    const bool late =
        next.form == Form::kPositional && (has(Form::kNamed) || has(Form::kUnpackedList));
    if (late || late_list || has(Form::kUnpackedDict))
      throw SyntaxFault(line, "an argument stands behind those that it must precede");
    out.push_back(std::move(next));
    if (!tokens_.is_operator(")")) tokens_.expect_operator(",");
  }
  tokens_.expect_operator(")");
  return out;
}

Argument ExpressionParser::argument() {
  using Form = Argument::Form;
  if (tokens_.skip_operator("*")) return {Form::kUnpackedList, "", expression()};
  if (tokens_.skip_operator("**")) return {Form::kUnpackedDict, "", expression()};
  if (tokens_.is(TokenKind::kName) && TokenCursor::is_operator(tokens_.ahead(), "=")) {
    std::string name = tokens_.next().text;
    tokens_.next();
    return {Form::kNamed, std::move(name), expression()};
  }
  return {Form::kPositional, "", expression()};
}

const Node* ExpressionParser::filters(const Node* value, bool begins_inline) {
  while (begins_inline || tokens_.skip_operator("|")) {
    begins_inline = false;
    Node* node = make(NodeKind::kFilter, tokens_.line(), {value});
    node->name = tokens_.expect_any_name();
    if (!vocabulary_.has_filter(node->name)) {
      throw UnsupportedFault(node->line,
                             fmt::format("the filter '{}' is not supported", node->name));
    }
    if (tokens_.is_operator("(")) node->arguments = arguments();
    value = node;
  }
  return value;
}

bool ExpressionParser::begins_operand() const {
  if (tokens_.is(TokenKind::kName))
    return !tokens_.is_name("else") && !tokens_.is_name("or") && !tokens_.is_name("and");
  return tokens_.is(TokenKind::kText) || tokens_.is(TokenKind::kNumber) ||
         tokens_.is_operator("[") || tokens_.is_operator("{");
}

const Node* ExpressionParser::test(const Node* node) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  Node* out = make(NodeKind::kTest, line, {node});
  out->name = tokens_.expect_any_name();
  if (!vocabulary_.has_test(out->name))
    throw UnsupportedFault(line, fmt::format("the test '{}' is not supported", out->name));
  if (tokens_.is_operator("(")) {
    out->arguments = arguments();
  } else if (begins_operand()) {
    if (tokens_.is_name("is")) throw SyntaxFault(line, "tests with 'is' cannot be chained");
    out->arguments.push_back({Argument::Form::kPositional, "", postfix(primary(Targets::kNames))});
  }
  return negated ? make(NodeKind::kNot, line, {out}) : out;
}

std::vector<Parameter> ExpressionParser::signature() {
  std::vector<Parameter> out;
  tokens_.expect_operator("(");
  while (!tokens_.is_operator(")")) {
    if (!out.empty()) tokens_.expect_operator(",");
    Parameter parameter;
    parameter.name = tokens_.expect_any_name();
    declare(parameter.name);
    if (tokens_.skip_operator("=")) {
      parameter.fallback = expression();
    } else if (!out.empty() && out.back().fallback != nullptr) {
      tokens_.refuse("a parameter without a default follows one with it");
    }
    out.push_back(std::move(parameter));
  }
  tokens_.expect_operator(")");
  return out;
}

void ExpressionParser::declare(const std::string& name) {
  if (name != "caller" && name != "varargs" && name != "kwargs") return;
  for (OpenMacro& macro : open_macros_) macro.declared.push_back(name);
}

void ExpressionParser::use(const std::string& name) {
  for (OpenMacro& macro : open_macros_) {
    if (std::ranges::find(macro.declared, name) != macro.declared.end()) continue;
    if (name == "caller") macro.node->uses_caller = true;
    if (name == "varargs") macro.node->uses_varargs = true;
    if (name == "kwargs") macro.node->uses_kwargs = true;
  }
}

}  // namespace ds::chat
