// Python's str.format, without format specifications.
#include <fmt/format.h>

#include <algorithm>

#include "data/chat/run/attributes.h"
#include "data/chat/run/text_methods.h"

namespace ds::chat {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Context& context, std::string_view format, const Arguments& arguments)
      : context_(context), format_(format), arguments_(arguments) {}

  std::string run() {
    context_.budget().spend_on(format_.size());
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if ((c == '{' || c == '}') && at_ < format_.size() && format_[at_] == c) {
        ++at_;
        out_ += c;
      } else if (c == '{') {
        append_field();
      } else if (c == '}') {
        throw Fault("format: a single '}'");
      } else {
        out_ += c;
      }
      if (out_.size() > context_.budget().limits().bytes) context_.budget().take(out_.size());
    }
    return std::move(out_);
  }

 private:
  void append_field() {
    const size_t end = format_.find('}', at_);
    if (end == format_.npos) throw Fault("format: a '{' without its '}'");
    std::string_view field = format_.substr(at_, end - at_);
    at_ = end + 1;
    if (field.find('{') != field.npos || field.find(':') != field.npos)
      throw Fault(fmt::format("format: the specification in '{{{}}}' is not supported", field));
    char conversion = 's';
    if (const size_t mark = field.find('!'); mark != field.npos) {
      if (mark + 2 != field.size() || (field.back() != 's' && field.back() != 'r'))
        throw Fault(fmt::format("format: the conversion in '{{{}}}' is not supported", field));
      conversion = field.back();
      field = field.substr(0, mark);
    }
    const Value value = value_of(field);
    out_ += conversion == 'r' ? context_.repr(value) : context_.str(value);
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 9 &&
           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  }

  Value argument(std::string_view name) {
    if (name.empty() || is_number(name)) {
      if (name.empty() ? counted_ == Counted::kByHand : counted_ == Counted::kAlone)
        throw Fault("format: numbered and unnumbered fields stand together");
      counted_ = name.empty() ? Counted::kAlone : Counted::kByHand;
      const size_t index = name.empty() ? next_++ : std::stoul(std::string(name));
      if (index >= arguments_.positional.size()) throw Fault("format: it wants more arguments");
      return arguments_[index];
    }
    const Value* found = arguments_.find(name);
    if (found == nullptr) throw Fault(fmt::format("format: there is no argument '{}'", name));
    return *found;
  }

  Value value_of(std::string_view field) {
    size_t end = std::min(field.find('.'), field.find('['));
    Value value = argument(field.substr(0, end));
    while (end < field.size()) {
      context_.budget().spend(1);
      if (field[end] == '[') {
        const size_t close = field.find(']', end);
        if (close == field.npos) throw Fault("format: a '[' without its ']'");
        const std::string_view key = field.substr(end + 1, close - end - 1);
        value = item_of(context_, value,
                        is_number(key) ? Value(static_cast<int64_t>(std::stol(std::string(key))))
                                       : context_.text(key));
        end = close + 1;
      } else if (field[end] == '.') {
        const size_t next = std::min(field.find_first_of(".[", end + 1), field.size());
        value = attribute_of(context_, value, field.substr(end + 1, next - end - 1));
        end = next;
      } else {
        throw Fault("format: a field that cannot be read");
      }
    }
    return value;
  }

  enum class Counted { kNot, kAlone, kByHand };
  Context& context_;
  std::string_view format_;
  const Arguments& arguments_;
  size_t at_ = 0, next_ = 0;
  Counted counted_ = Counted::kNot;
  std::string out_;
};

}  // namespace

std::string brace_formatted(Context& context, std::string_view format, const Arguments& arguments) {
  return BraceFormatter(context, format, arguments).run();
}

}  // namespace ds::chat
