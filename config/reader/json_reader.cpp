#include "config/reader/json_reader.h"

#include <charconv>
#include <cmath>
#include <unordered_set>

#include "core/status/error.h"
#include "core/text/byte_order_mark.h"
#include "core/text/utf8.h"

namespace ds {

namespace {

bool is_punctuator(char c) {
  return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':';
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trim_right(std::string_view text) {
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\v' || text.back() == '\f')) {
    text.remove_suffix(1);
  }
  return text;
}

bool is_json_number(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t start = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - start;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const size_t first = i;
  const size_t count = digits();
  if (count == 0 || (count > 1 && text[first] == '0')) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

class Reader {
 public:
  // Duplicate keys go to `problems`; where there are none they are thrown as everything else is.
  Reader(std::string_view text, std::shared_ptr<const std::string> source,
         Problems* problems = nullptr)
      : text_(text), source_(std::move(source)), problems_(problems) {}

  Value document();
  Value single(const Origin& origin);

 private:
  [[noreturn]] void fail(size_t offset, const std::string& message) const {
    throw ConfigError(fmt::format("{}: {}", at(offset).text(), message));
  }
  [[noreturn]] void fail_unclosed(const char* what, size_t start, char closing) const {
    const std::string hint = swallowed_.source
                                 ? fmt::format(
                                       "; the string at {} is not in quotes and so runs to the end "
                                       "of its line, brackets included",
                                       swallowed_.text())
                                 : std::string();
    fail(pos_, fmt::format("the {} opened at {} has no closing {}{}", what, at(start).text(),
                           closing, hint));
  }
  Origin at(size_t offset) const;
  Origin here() { return advance_to(pos_); }
  Origin advance_to(size_t offset);
  bool done() const { return pos_ >= text_.size(); }
  char peek() const { return text_[pos_]; }
  bool starts_with(std::string_view s) const { return text_.substr(pos_).starts_with(s); }

  void report_repeated(size_t offset, const Origin& origin, const std::string& name,
                       const Origin& first);
  void skip_blanks();
  void skip_block_comment();
  Value value(int depth);
  Value object(int depth, bool braced);
  Value list(int depth);
  void separator();
  std::string key();
  std::string quoted();
  std::string block_string();
  void escape(std::string& out);
  unsigned hex4();
  Value quoteless();
  Value scalar(std::string_view token, size_t offset, bool* known);

  std::string_view text_;
  std::shared_ptr<const std::string> source_;
  Problems* problems_ = nullptr;
  size_t pos_ = 0;
  int values_ = 0;
  // Line of the last position asked for: positions are asked for in ascending order, so lines are
  // counted once.
  size_t line_start_ = 0;
  size_t counted_to_ = 0;
  int line_ = 1;
  Origin swallowed_;  // the first quoteless string with a bracket in it: the likely cause of a
                      // missing one
};

Origin Reader::advance_to(size_t offset) {
  for (; counted_to_ < offset; ++counted_to_) {
    if (text_[counted_to_] == '\n') {
      ++line_;
      line_start_ = counted_to_ + 1;
    }
  }
  return {source_, line_, static_cast<int>(offset - line_start_) + 1};
}

Origin Reader::at(size_t offset) const {
  Reader fresh(text_, source_);
  return fresh.advance_to(std::min(offset, text_.size()));
}

void Reader::skip_blanks() {
  while (!done()) {
    const char c = peek();
    if (is_blank(c)) {
      ++pos_;
    } else if (c == '#' || starts_with("//")) {
      while (!done() && peek() != '\n') ++pos_;
    } else if (starts_with("/*")) {
      skip_block_comment();
    } else {
      return;
    }
  }
}

void Reader::skip_block_comment() {
  const size_t end = text_.find("*/", pos_ + 2);
  if (end == std::string_view::npos) fail(pos_, "the comment /* has no closing */");
  pos_ = end + 2;
}

Value Reader::document() {
  if (text_.size() > kMaxTextBytes) {
    fail(0, fmt::format("the text has {} bytes, at most {} are read", text_.size(), kMaxTextBytes));
  }
  if (const size_t bad = first_invalid_utf8(text_); bad != std::string_view::npos) {
    fail(bad,
         fmt::format("byte 0x{:02x} is not valid UTF-8", static_cast<unsigned char>(text_[bad])));
  }
  if (text_.starts_with(kByteOrderMark)) pos_ = kByteOrderMark.size();
  skip_blanks();
  if (done()) fail(pos_, "the text is empty, expected an object");
  if (peek() == '[')
    fail(
        pos_,
        "the document is a list, expected an object; a configuration is one, and a list of samples "
        "is data, as JSON lines: jq -c '.[]' FILE > FILE.jsonl, then data.train=FILE.jsonl");
  Value root = peek() == '{' ? object(0, true) : object(0, false);
  skip_blanks();
  if (!done()) fail(pos_, "text follows after the end of the document");
  return root;
}

Value Reader::single(const Origin& origin) {
  skip_blanks();
  if (done()) return Value::string("", origin);
  const char c = peek();
  Value result;
  if (c == '{' || c == '[' || c == '"' || c == '\'') {
    result = value(0);
    skip_blanks();
    if (!done()) fail(pos_, "text follows after the end of the value");
  } else {
    const std::string_view token = trim_right(text_.substr(pos_));
    bool known = false;
    result = scalar(token, pos_, &known);
    if (!known) result = Value::string(std::string(token));
  }
  result.set_origin(origin);
  return result;
}

Value Reader::value(int depth) {
  skip_blanks();
  if (++values_ > kMaxValues) fail(pos_, fmt::format("more than {} values", kMaxValues));
  if (done()) fail(pos_, "the text ends where a value was expected");
  const char c = peek();
  if (c == '{') return object(depth, true);
  if (c == '[') return list(depth);
  if (starts_with("'''")) {
    const Origin origin = here();
    return Value::string(block_string(), origin);
  }
  if (c == '"' || c == '\'') {
    const Origin origin = here();
    return Value::string(quoted(), origin);
  }
  return quoteless();
}

void Reader::separator() {
  skip_blanks();
  if (!done() && peek() == ',') {
    ++pos_;
    skip_blanks();
  }
}

Value Reader::object(int depth, bool braced) {
  if (depth >= kMaxDepth) fail(pos_, fmt::format("nested deeper than {} levels", kMaxDepth));
  const size_t start = pos_;
  Value result = Value::object(here());
  if (braced) ++pos_;
  std::unordered_set<std::string> seen;
  skip_blanks();
  while (true) {
    if (done()) {
      if (braced) fail_unclosed("object", start, '}');
      return result;
    }
    if (braced && peek() == '}') break;
    const Origin origin = here();
    const size_t offset = pos_;
    std::string name = key();
    const bool repeated = !seen.insert(name).second;
    if (repeated) report_repeated(offset, origin, name, result.find_member(name)->origin);
    skip_blanks();
    if (done() || peek() != ':') fail(pos_, fmt::format("expected ':' after the key \"{}\"", name));
    ++pos_;
    Value item = value(depth + 1);
    if (!repeated) result.members().push_back({std::move(name), std::move(item), origin});
    separator();
  }
  ++pos_;
  return result;
}

void Reader::report_repeated(size_t offset, const Origin& origin, const std::string& name,
                             const Origin& first) {
  std::string message =
      fmt::format("duplicate key \"{}\", first given at {}", name.substr(0, 60), first.text());
  if (!problems_) fail(offset, message);
  problems_->error(Basis::kDeepSpeed, "", origin, std::move(message));
}

Value Reader::list(int depth) {
  if (depth >= kMaxDepth) fail(pos_, fmt::format("nested deeper than {} levels", kMaxDepth));
  const size_t start = pos_;
  Value result = Value::list({}, here());
  ++pos_;
  skip_blanks();
  while (true) {
    if (done()) fail_unclosed("list", start, ']');
    if (peek() == ']') break;
    result.items().push_back(value(depth + 1));
    separator();
  }
  ++pos_;
  return result;
}

std::string Reader::key() {
  if (peek() == '"' || peek() == '\'') return quoted();
  const size_t start = pos_;
  while (!done() && !is_blank(peek()) && !is_punctuator(peek())) ++pos_;
  if (pos_ == start) fail(pos_, fmt::format("expected a key, got '{}'", peek()));
  const size_t end = pos_;
  while (!done() && is_blank(peek())) ++pos_;  // no comment may stand before the colon here
  if (done() || peek() != ':') {
    fail(start, fmt::format("expected a key followed by ':', got '{}'",
                            text_.substr(start, std::min<size_t>(end - start, 40))));
  }
  return std::string(text_.substr(start, end - start));
}

std::string Reader::quoted() {
  const size_t start = pos_;
  const char quote = peek();
  ++pos_;
  std::string out;
  while (true) {
    if (done()) fail(start, "the string has no closing quote");
    const char c = peek();
    if (c == quote) break;
    if (static_cast<unsigned char>(c) < 0x20) {
      fail(pos_, c == '\n'
                     ? std::string("the string is not closed on its line")
                     : fmt::format("control character 0x{:02x} in a string, write it as an escape",
                                   static_cast<unsigned>(c)));
    }
    ++pos_;
    if (c == '\\') {
      escape(out);
    } else {
      out += c;
    }
  }
  ++pos_;
  return out;
}

void Reader::escape(std::string& out) {
  if (done()) fail(pos_, "the string has no closing quote");
  const char c = text_[pos_++];
  switch (c) {
    case '"':
    case '\'':
    case '\\':
    case '/':
      out += c;
      return;
    case 'b':
      out += '\b';
      return;
    case 'f':
      out += '\f';
      return;
    case 'n':
      out += '\n';
      return;
    case 'r':
      out += '\r';
      return;
    case 't':
      out += '\t';
      return;
    case 'u':
      break;
    default:
      fail(pos_ - 2, "unknown escape in a string");
  }
  const size_t start = pos_ - 2;
  unsigned code = hex4();
  if (code >= 0xD800 && code <= 0xDBFF && starts_with("\\u")) {
    pos_ += 2;
    const unsigned low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail(start, "\\u escape: a high surrogate needs a low one");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xD800 && code <= 0xDFFF) {
    fail(start, "\\u escape: a lone surrogate is no character");
  }
  append_utf8(code, out);
}

unsigned Reader::hex4() {
  unsigned code = 0;
  const char* begin = text_.data() + pos_;
  const size_t length = std::min<size_t>(4, text_.size() - pos_);
  const auto [end, error] = std::from_chars(begin, begin + length, code, 16);
  if (error != std::errc{} || end != begin + 4) fail(pos_, "\\u needs four hexadecimal digits");
  pos_ += 4;
  return code;
}

std::string Reader::block_string() {
  const size_t start = pos_;
  const int indent = here().column - 1;
  pos_ += 3;
  const size_t end = text_.find("'''", pos_);
  if (end == std::string_view::npos) fail(start, "the ''' block has no closing '''");
  std::string_view body = text_.substr(pos_, end - pos_);
  pos_ = end + 3;
  // Blanks behind the quotes do not count, nor does the line break after them or the last one
  // (Hjson).
  body.remove_prefix(std::min(body.find_first_not_of(" \t\r"), body.size()));
  if (body.starts_with('\n')) body.remove_prefix(1);
  std::string out;
  while (!body.empty()) {
    for (int i = 0; i < indent && !body.empty() && (body[0] == ' ' || body[0] == '\t'); ++i) {
      body.remove_prefix(1);
    }
    const size_t eol = std::min(body.find('\n'), body.size());
    out.append(body.substr(0, eol));
    if (eol == body.size()) break;
    out += '\n';
    body.remove_prefix(eol + 1);
  }
  const size_t last = out.rfind('\n');
  if (last != std::string::npos && out.find_first_not_of(" \t\r", last + 1) == std::string::npos) {
    out.resize(last);
  }
  return out;
}

// A quoteless value runs to the end of its line. Before that, a comma, a bracket or a comment ends
// it only if what stands before it is a number, true, false or null.
Value Reader::quoteless() {
  if (is_punctuator(peek())) {
    fail(pos_,
         fmt::format("expected a value, got '{}'; put strings that begin so in quotes", peek()));
  }
  const size_t start = pos_;
  const Origin origin = here();
  bool tried = false;  // only the first stop can end a number or a literal
  for (;; ++pos_) {
    const bool eol = done() || peek() == '\n';
    const bool stop = eol || peek() == ',' || peek() == '}' || peek() == ']' || peek() == '#' ||
                      starts_with("//") || starts_with("/*");
    if (stop && (!tried || eol)) {
      const std::string_view token = trim_right(text_.substr(start, pos_ - start));
      bool known = false;
      Value result;
      if (!tried) result = scalar(token, start, &known);
      tried = true;
      if (!known && eol) {
        if (token.find_first_of("}]") != std::string_view::npos && swallowed_.source == nullptr) {
          swallowed_ = origin;
        }
        result = Value::string(std::string(token));
      }
      if (known || eol) {
        result.set_origin(origin);
        return result;
      }
    }
    if (!eol && static_cast<unsigned char>(peek()) < 0x20 && !is_blank(peek())) {
      fail(pos_,
           fmt::format("control character 0x{:02x} in a value", static_cast<unsigned>(peek())));
    }
  }
}

Value Reader::scalar(std::string_view token, size_t offset, bool* known) {
  *known = true;
  if (token == "true") return Value::boolean(true);
  if (token == "false") return Value::boolean(false);
  if (token == "null") return Value::null();
  // Python writes these for numbers that JSON does not have; whoever takes one knows its name.
  if (token == "Infinity" || token == "-Infinity" || token == "NaN") {
    return Value::string(std::string(token));
  }
  if (!is_json_number(token)) {
    *known = false;
    return {};
  }
  const char* end = token.data() + token.size();
  int64_t integer = 0;
  if (const auto parsed = std::from_chars(token.data(), end, integer);
      parsed.ec == std::errc{} && parsed.ptr == end) {
    return Value::integer(integer);
  }
  double number = 0;
  const auto parsed = std::from_chars(token.data(), end, number);
  // from_chars reports underflow and overflow alike; a tiny number is as good as zero, a huge one
  // is not.
  if (parsed.ec == std::errc::result_out_of_range) {
    const size_t e = token.find_first_of("eE");
    if (e == std::string_view::npos || token[e + 1] != '-') {
      fail(offset, fmt::format("the number {} is beyond the range of a double",
                               token.substr(0, std::min<size_t>(token.size(), 40))));
    }
    number = 0;
  }
  return Value::number(number);
}

}  // namespace

Value read_config_document(std::string_view text, const std::string& source) {
  return Reader(text, std::make_shared<const std::string>(source)).document();
}

Value read_config_document(std::string_view text, const std::string& source, Problems& problems) {
  return Reader(text, std::make_shared<const std::string>(source), &problems).document();
}

Value read_config_value(std::string_view text, const Origin& origin) {
  const std::string source = origin.text();
  if (const size_t bad = first_invalid_utf8(text); bad != std::string_view::npos) {
    throw ConfigError(fmt::format("{}: byte {} is not valid UTF-8", source, bad));
  }
  return Reader(text, std::make_shared<const std::string>(source)).single(origin);
}

std::string decode_base64(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int count = 0;
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  out.reserve(text.size() / 4 * 3);  // a secret leaves no shorter copies behind
  if (text.size() % 4 != 0) {
    throw ConfigError("base64 config: the length is no multiple of 4; the text is cut off");
  }
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    unsigned digit = 0;
    if (c >= 'A' && c <= 'Z')
      digit = static_cast<unsigned>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      digit = static_cast<unsigned>(c - 'a') + 26;
    else if (c >= '0' && c <= '9')
      digit = static_cast<unsigned>(c - '0') + 52;
    else if (c == '-' || c == '+')
      digit = 62;
    else if (c == '_' || c == '/')
      digit = 63;
    else
      throw ConfigError(fmt::format("base64 config: character {} is no base64 digit", i + 1));
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

}  // namespace ds
