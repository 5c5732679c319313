// The filters and tests that a template may name.
#pragma once

#include <functional>
#include <string_view>

#include "data/chat/syntax/lexer.h"

namespace ds::chat {

// A name that the language has and this program does not know.
class UnsupportedFault : public SyntaxFault {
 public:
  using SyntaxFault::SyntaxFault;
};

struct Vocabulary {
  std::function<bool(std::string_view)> has_filter;
  std::function<bool(std::string_view)> has_test;
};

}  // namespace ds::chat
