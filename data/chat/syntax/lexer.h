// Cuts the source of a template into tokens, with white space handled as trim_blocks and
// lstrip_blocks say (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat/value/value.h"

namespace ds::chat {

enum class TokenKind {
  kData,  // text between tags
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kText,    // a literal
  kNumber,  // a literal; the value is an int or a float
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;
  Value value;  // of a number
};

// A fault in the source, with its line.
class SyntaxFault : public Fault {
 public:
  SyntaxFault(int line, const std::string& message) : Fault(message), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

std::vector<Token> tokens_of(std::string_view source);

}  // namespace ds::chat
