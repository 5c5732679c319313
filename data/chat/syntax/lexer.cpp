#include "data/chat/syntax/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "data/chat/syntax/literals.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

// Every line ends in \n, and the last one in nothing.
std::string with_plain_line_ends(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

constexpr std::array<std::string_view, 24> kOperators{"//", "**", "==", "!=", ">=", "<=", "+", "-",
                                                      "*",  "/",  "%",  "~",  "[",  "]",  "(", ")",
                                                      "{",  "}",  ">",  "<",  "=",  ".",  ":", "|"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_line_ends(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag();
      if (tag == std::string::npos) {
        add_data(source_.substr(at_));
        break;
      }
      read_tag(tag);
    }
    tokens_.push_back({TokenKind::kEnd, line_, "", {}});
    return std::move(tokens_);
  }

  int line() const { return line_; }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }
  [[noreturn]] void fail(const std::string& message) const { throw SyntaxFault(line_, message); }

  size_t find_tag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          std::string_view("{%#").find(source_[at + 1]) != std::string::npos)
        return at;
    }
    return std::string::npos;
  }

  void move_to(size_t at) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(at), '\n'));
    line_begins_ = at > at_ ? source_[at - 1] == '\n' : line_begins_;
    at_ = at;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) tokens_.push_back({TokenKind::kData, line_, std::string(text), {}});
  }

  // The text before a tag whose sign and kind say how much of its end counts.
  std::string_view before_tag(std::string_view text, char sign, bool prints) const {
    if (sign == '-') return stripped(text, Side::kRight);
    if (sign == '+' || prints) return text;
    const size_t line = text.rfind('\n') + 1;  // 0 where there is none
    if (line == 0 && !line_begins_) return text;
    return stripped(text.substr(line), Side::kLeft).empty() ? text.substr(0, line) : text;
  }

  void skip_space() { move_to(source_.size() - stripped(rest(), Side::kLeft).size()); }

  // Goes behind the end of a tag: "-}}" takes the space that follows, "%}" one line end. Returns
  // whether there is one.
  bool skip_end(std::string_view end, bool trims_line) {
    if (sees("-") && rest().substr(1).starts_with(end)) {
      move_to(at_ + 1 + end.size());
      skip_space();
      return true;
    }
    if (trims_line && sees("+") && rest().substr(1).starts_with(end)) {
      move_to(at_ + 1 + end.size());
      return true;
    }
    if (!sees(end)) return false;
    move_to(at_ + end.size());
    if (trims_line && sees("\n")) move_to(at_ + 1);
    return true;
  }

  void read_tag(size_t tag) {
    const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(before_tag(text, sign, kind == '{'));
    move_to(tag);
    if (kind == '%' && read_raw(sign)) return;
    const int begin_line = line_;
    move_to(tag + 2 + (sign != '\0' ? 1 : 0));
    if (kind == '#') return skip_comment(begin_line);
    const bool prints = kind == '{';
    tokens_.push_back({prints ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, line_, "", {}});
    read_inside(prints);
  }

  void skip_comment(int begin_line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) throw SyntaxFault(begin_line, "a comment without its end '#}'");
    const bool signed_end = end > at_ && sign_at(end - 1) != '\0';
    move_to(signed_end ? end - 1 : end);
    skip_end("#}", true);
  }

  // {% raw %} ... {% endraw %}. Returns whether the tag is one.
  bool read_raw(char sign) {
    const auto skip_word = [&](size_t at, std::string_view word) {
      at = source_.size() - stripped(std::string_view(source_).substr(at), Side::kLeft).size();
      if (!std::string_view(source_).substr(at).starts_with(word)) return std::string::npos;
      at += word.size();
      return source_.size() - stripped(std::string_view(source_).substr(at), Side::kLeft).size();
    };
    const size_t after = skip_word(at_ + 2 + (sign != '\0' ? 1 : 0), "raw");
    if (after == std::string::npos) return false;
    const std::string_view end = std::string_view(source_).substr(after);
    if (!end.starts_with("%}") && !end.starts_with("-%}")) return false;
    move_to(after);
    skip_end("%}", false);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char end_sign = sign_at(tag + 2);
      const size_t behind = skip_word(tag + 2 + (end_sign != '\0' ? 1 : 0), "endraw");
      if (behind == std::string::npos) continue;
      const std::string_view close = std::string_view(source_).substr(behind);
      if (!close.starts_with("%}") && !close.starts_with("-%}") && !close.starts_with("+%}"))
        continue;
      add_data(before_tag(std::string_view(source_).substr(at_, tag - at_), end_sign, false));
      move_to(behind);
      skip_end("%}", true);
      return true;
    }
    fail("a raw block without its end");
  }

  void read_inside(bool prints) {
    std::string open;  // brackets
    const int begin_line = line_;
    while (at_ < source_.size()) {
      const int line = line_;
      if (open.empty() && skip_end(prints ? "}}" : "%}", !prints)) {
        tokens_.push_back({prints ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, line, "", {}});
        return;
      }
      if (is_space(first_character(rest()).code)) {
        skip_space();
      } else {
        read_token(open);
      }
    }
    throw SyntaxFault(begin_line,
                      prints ? "'{{' without its end '}}'" : "'{%' without its end '%}'");
  }

  void read_token(std::string& open) {
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (auto number = number_at(rest(), behind_dot)) {
      tokens_.push_back({TokenKind::kNumber, line_, std::string(rest().substr(0, number->length)),
                         number->value});
      return move_to(at_ + number->length);
    }
    size_t length = 0;
    while (length < rest().size()) {
      const Utf8Character c = first_character(rest().substr(length));
      if (!is_word(c.code)) break;
      length += c.length;
    }
    if (length > 0) {
      if (is_numeric(first_character(rest()).code)) fail("a name begins with a digit");
      tokens_.push_back({TokenKind::kName, line_, std::string(rest().substr(0, length)), {}});
      return move_to(at_ + length);
    }
    if (sees("'") || sees("\"")) return read_text();
    read_operator(open);
  }

  void read_text() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a text without its closing quote");
    const int line = line_;
    const std::string_view inside = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    tokens_.push_back({TokenKind::kText, line, unescaped(inside, line), {}});
    move_to(end + 1);
  }

  std::string unescaped(std::string_view inside, int line) const {
    try {
      return unescaped_text(inside);
    } catch (const Fault& fault) {
      throw SyntaxFault(line, fault.what());
    }
  }

  void read_operator(std::string& open) {
    const auto found = std::ranges::find_if(kOperators, [&](auto sign) { return sees(sign); });
    std::string sign = found != kOperators.end() ? std::string(*found) : sees(",") ? "," : "";
    if (sign.empty()) {
      const size_t length = first_character(rest()).length;
      fail(fmt::format("unexpected character '{}'", rest().substr(0, length)));
    }
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(sign) != kOpen.npos) open += kClose[kOpen.find(sign)];
    if (kClose.find(sign) != kClose.npos) {
      if (open.empty()) fail(fmt::format("unexpected '{}'", sign));
      if (open.back() != sign[0])
        fail(fmt::format("unexpected '{}', expected '{}'", sign, open.back()));
      open.pop_back();
    }
    tokens_.push_back({TokenKind::kOperator, line_, sign, {}});
    move_to(at_ + sign.size());
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  Lexer lexer(source);
  try {
    return lexer.run();
  } catch (const SyntaxFault&) {
    throw;
  } catch (const Fault& fault) {  // of a literal, which knows no line
    throw SyntaxFault(lexer.line(), fault.what());
  }
}

}  // namespace ds::chat
