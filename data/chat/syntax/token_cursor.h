// The tokens of a template while a parser goes through them, and the nodes it makes.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/syntax/lexer.h"

namespace ds::chat {

class TokenCursor {
 public:
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  int line() const { return current().line; }

  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_operator(std::string_view sign) const { return is_operator(current(), sign); }
  bool is_name(std::string_view name) const { return is_name(current(), name); }
  static bool is_operator(const Token& token, std::string_view sign) {
    return token.kind == TokenKind::kOperator && token.text == sign;
  }
  static bool is_name(const Token& token, std::string_view name) {
    return token.kind == TokenKind::kName && token.text == name;
  }

  bool skip_operator(std::string_view sign) { return is_operator(sign) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }

  void expect_operator(std::string_view sign) {
    if (!skip_operator(sign)) refuse(fmt::format("expected '{}'", sign));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) refuse(fmt::format("expected '{}'", name));
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) refuse(fmt::format("expected {}", what));
    next();
  }
  std::string expect_any_name() {
    if (!is(TokenKind::kName)) refuse("expected a name");
    return next().text;
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    throw SyntaxFault(line(), fmt::format("{}, found {}", expected, described()));
  }

 private:
  std::string described() const {
    switch (current().kind) {
      case TokenKind::kData:
        return "text";
      case TokenKind::kPrintBegin:
        return "'{{'";
      case TokenKind::kPrintEnd:
        return "'}}'";
      case TokenKind::kBlockBegin:
        return "'{%'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kEnd:
        return "the end of the template";
      default:
        return fmt::format("'{}'", current().text);
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Counts how deep the parser is in brackets and blocks.
class ParseLevel {
 public:
  ParseLevel(int& level, int line) : level_(level) {
    if (++level_ > kDeepest) {
      --level_;
      throw SyntaxFault(line, fmt::format("nested deeper than {} levels", kDeepest));
    }
  }
  ~ParseLevel() { --level_; }
  ParseLevel(const ParseLevel&) = delete;  // counts its own place

 private:
  static constexpr int kDeepest = 64;
  int& level_;
};

}  // namespace ds::chat
