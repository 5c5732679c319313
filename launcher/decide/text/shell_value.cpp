#include "launcher/decide/text/shell_value.h"

#include <algorithm>

namespace ds {
namespace {

bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_in_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

class Reader {
 public:
  Reader(std::string_view text, const Environment& variables)
      : text_(text), variables_(variables) {}

  ShellValue read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '$') {
        dollar();
      } else if (c == '`') {
        leave(end_of('`', at_ + 1));
      } else if (c == '"' && (in_quotes_ || end_of('"', at_ + 1) != std::string_view::npos)) {
        in_quotes_ = !in_quotes_;
        ++at_;
      } else if (c == '\'' && !in_quotes_ && text_.find('\'', at_ + 1) != std::string_view::npos) {
        const size_t end = text_.find('\'', at_ + 1);
        out_.value += text_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
      } else if (c == '~' && !in_quotes_ && (at_ == 0 || text_[at_ - 1] == ':')) {
        home();
      } else {
        out_.value += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  // Returns where `c` stands next without a backslash before it; npos if it does not.
  size_t end_of(char c, size_t from) const {
    for (size_t at = from; at < text_.size(); ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == c) {
        return at;
      }
    }
    return std::string_view::npos;
  }

  void escape() {
    constexpr std::string_view kSpecial = "$\"`\\";
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const bool special = kSpecial.find(next) != std::string_view::npos && next != '\0';
    if (special || (!in_quotes_ && (next == '\'' || is_blank(next)))) ++at_;
    out_.value += text_[at_++];
  }

  void dollar() {
    const bool braced = text_.substr(at_).starts_with("${");
    const size_t begin = at_ + (braced ? 2 : 1);
    size_t end = begin;
    while (end < text_.size() && is_in_name(text_[end])) ++end;
    const bool named = end > begin && begins_name(text_[begin]);
    const bool closed = !braced || text_.substr(end).starts_with('}');
    if (named && closed) {
      add_variable(text_.substr(begin, end - begin));
      at_ = end + (braced ? 1 : 0);
    } else if (braced) {
      leave(text_.find('}', at_));
    } else if (text_.substr(at_).starts_with("$(")) {
      leave(text_.find(')', at_));
    } else if (end > begin) {
      leave(end - 1);  // "$1" of a shell's arguments
    } else {
      out_.value += text_[at_++];
    }
  }

  void home() {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '/' && text_[end] != ':') ++end;
    if (end == at_ + 1 && variables_.contains("HOME")) {
      add_variable("HOME");
      at_ = end;
    } else if (end == at_ + 1) {
      out_.value += text_[at_++];
    } else {
      leave(end - 1);  // of another user
    }
  }

  void add_variable(std::string_view name) {
    const auto found = variables_.find(name);
    if (found != variables_.end()) out_.value += found->second;
  }

  // Up to and with `last`, or to the end.
  void leave(size_t last) {
    const size_t end = std::min(last, text_.size() - 1) + 1;
    const std::string_view part = text_.substr(at_, end - at_);
    if (out_.left.empty()) out_.left = part;
    out_.value += part;
    at_ = end;
  }

  std::string_view text_;
  const Environment& variables_;
  size_t at_ = 0;
  bool in_quotes_ = false;
  ShellValue out_;
};

}  // namespace

ShellValue read_shell_value(std::string_view text, const Environment& variables) {
  return Reader(text, variables).read();
}

}  // namespace ds
