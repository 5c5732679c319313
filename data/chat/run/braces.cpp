// Python's str.format, as the formatter of jinja2's sandbox carries it out.
#include <fmt/format.h>

#include <algorithm>

#include "data/chat/run/attributes.h"
#include "data/chat/run/format_spec.h"
#include "data/chat/run/text_methods.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

struct Field {
  std::string_view name, specification;
  char conversion = '\0';
};

// Cuts a format into what stands there and fields.
class FieldReader {
 public:
  explicit FieldReader(std::string_view format) : format_(format) {}

  // Appends what stands before the next field; says whether there is one.
  bool next(std::string& out, Field& field) {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if (c != '{' && c != '}') {
        out += c;
      } else if (at_ < format_.size() && format_[at_] == c) {
        ++at_;
        out += c;
      } else if (c == '}') {
        throw Fault("format: a single '}'");
      } else {
        field = read();
        return true;
      }
    }
    return false;
  }

 private:
  char take() {
    if (at_ >= format_.size()) throw Fault("format: a '{' without its '}'");
    return format_[at_++];
  }

  Field read() {
    const size_t begin = at_;
    char c = take();
    for (; c != '}' && c != ':' && c != '!'; c = take()) {
      if (c == '{') throw Fault("format: a '{' in the name of a field");
      while (c == '[' && take() != ']') {
      }
    }
    Field out{.name = format_.substr(begin, at_ - 1 - begin), .specification = {}};
    if (c == '!') {
      out.conversion = take();
      c = take();
      if (c != '}' && c != ':') throw Fault("format: a conversion is one letter");
    }
    if (c == '}') return out;
    const size_t from = at_;
    for (int depth = 1; depth > 0;) {
      c = take();
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    }
    out.specification = format_.substr(from, at_ - 1 - from);
    return out;
  }

  std::string_view format_;
  size_t at_ = 0;
};

class BraceFormatter {
 public:
  BraceFormatter(Context& context, const Arguments& arguments, bool escapes)
      : context_(context), arguments_(arguments), escapes_(escapes) {}

  // A specification may have fields, too, which have specifications without any.
  std::string run(std::string_view format, int levels = 2) {
    if (levels < 0) throw Fault("format: fields lie in each other too deep");
    context_.budget().spend_on(format.size());
    std::string out;
    FieldReader reader(format);
    for (Field field; reader.next(out, field);) {
      const Value value = converted(value_of(field.name), field.conversion);
      out += shown(value, run(field.specification, levels - 1));
      if (out.size() > context_.budget().limits().bytes) context_.budget().take(out.size());
    }
    return out;
  }

 private:
  Value converted(const Value& value, char conversion) {
    switch (conversion) {
      case '\0':
        return value;
      case 's':
        return context_.text(context_.str(value));
      case 'r':
        return context_.text(context_.repr(value));
      case 'a':
        return context_.text(ascii(context_.repr(value)));
      default:
        throw Fault(fmt::format("format: there is no conversion '{}'", conversion));
    }
  }

  // Texts that count as escaped are put together of such.
  std::string shown(const Value& value, std::string_view specification) {
    if (!escapes_) return formatted(context_, value, specification);
    if (!value.is(Kind::kText) || !value.is_markup())
      return escaped(formatted(context_, value, specification));
    if (!specification.empty()) throw Fault("format: an escaped text has no specification");
    return value.as_text();
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 9 &&
           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  }

  // How fields are counted is told by names that are numbers alone.
  void count(std::string_view name) {
    if (!is_number(name)) return;
    if (next_ > 0) throw Fault("format: numbered and unnumbered fields stand together");
    is_by_hand_ = true;
  }

  Value argument(std::string_view name) {
    if (is_number(name)) {
      const size_t index = std::stoul(std::string(name));
      if (index >= arguments_.positional.size()) throw Fault("format: it wants more arguments");
      return arguments_[index];
    }
    const Value* found = arguments_.find(name);
    if (found == nullptr) throw Fault(fmt::format("format: there is no argument '{}'", name));
    return *found;
  }

  Value value_of(std::string_view field) {
    std::string counted;
    if (field.empty()) {
      if (is_by_hand_) throw Fault("format: numbered and unnumbered fields stand together");
      counted = std::to_string(next_++);
      field = counted;
    } else {
      count(field);
    }
    size_t end = std::min(field.find('.'), field.find('['));
    Value value = argument(field.substr(0, end));
    while (end < field.size()) {
      context_.budget().spend(1);
      if (field[end] == '[') {
        const size_t close = field.find(']', end);
        if (close == field.npos || close == end + 1) throw Fault("format: a '[' without its key");
        const std::string_view key = field.substr(end + 1, close - end - 1);
        value = item_of(context_, value,
                        is_number(key) ? Value(static_cast<int64_t>(std::stol(std::string(key))))
                                       : context_.text(key));
        end = close + 1;
      } else if (field[end] == '.') {
        const size_t next = std::min(field.find_first_of(".[", end + 1), field.size());
        if (next == end + 1) throw Fault("format: a '.' without a name");
        value = attribute_of(context_, value, field.substr(end + 1, next - end - 1));
        end = next;
      } else {
        throw Fault("format: a field that cannot be read");
      }
    }
    return value;
  }

  Context& context_;
  const Arguments& arguments_;
  bool escapes_;
  size_t next_ = 0;
  bool is_by_hand_ = false;
};

}  // namespace

std::string brace_formatted(Context& context, const Value& format, const Arguments& arguments) {
  return BraceFormatter(context, arguments, format.is_markup()).run(format.as_text());
}

}  // namespace ds::chat
