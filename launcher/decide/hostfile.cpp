// Hostfiles.
#include "launcher/decide/hostfile.h"

#include <charconv>
#include <optional>
#include <set>

#include "core/error.h"
#include "launcher/decide/node_list.h"

namespace ds {

namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Walks through one line; columns count from 1 in messages.
class Line {
 public:
  Line(std::string_view text, std::string_view file, size_t number)
      : text_(text), file_(file), number_(number) {}

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool at_end() const { return at_ == text_.size(); }
  bool at_comment() const { return !at_end() && text_[at_] == '#'; }
  size_t position() const { return at_; }

  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() && !is_space(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool take(std::string_view literal) {
    if (!text_.substr(at_).starts_with(literal)) return false;
    at_ += literal.size();
    return true;
  }
  // Nothing when no digit follows; numbers beyond 64 bits are refused.
  std::optional<int64_t> number() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == begin) return std::nullopt;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + at_, value);
    if (error != std::errc()) refuse_at(begin, "the number of slots is too large");
    return value;
  }
  [[noreturn]] void refuse_at(size_t column, std::string_view what) const {
    throw UsageError(fmt::format("{}:{}:{}: {}", file_, number_, column + 1, what));
  }
  [[noreturn]] void refuse(std::string_view what) const { refuse_at(at_, what); }

 private:
  std::string_view text_;
  std::string_view file_;
  size_t number_;
  size_t at_ = 0;
};

struct Entry {
  std::string_view name;
  size_t name_at = 0;
  int64_t slots = 0;
  size_t slots_at = 0;
};

Entry read_entry(Line& line) {
  Entry entry;
  entry.name_at = line.position();
  entry.name = line.word();
  line.skip_space();
  if (!line.take("slots=")) line.refuse("expected 'HOST slots=NUMBER'");
  entry.slots_at = line.position();
  const auto slots = line.number();
  if (!slots) line.refuse("expected the number of slots");
  entry.slots = *slots;
  return entry;
}

void check_rest(Line& line, const Entry& entry) {
  if (entry.slots < 1 || entry.slots > kMaxSlots) {
    line.refuse_at(entry.slots_at,
                   fmt::format("{} slots, expected 1 to {}", entry.slots, kMaxSlots));
  }
  const size_t after = line.position();
  line.skip_space();
  if (line.position() > after && line.take("max_slots=")) {
    if (!line.number()) line.refuse("expected a number after max_slots=");
    line.skip_space();
  }
  if (!line.at_end() && !line.at_comment())
    line.refuse("unexpected text after the number of slots");
}

void check_bytes(const Line& line, std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '\t' && (c < 0x20 || c > 0x7e)) {
      line.refuse_at(
          i, fmt::format("byte 0x{:02x} is not allowed; write plain ASCII with Unix line ends",
                         static_cast<unsigned>(static_cast<unsigned char>(c))));
    }
  }
}

std::vector<std::string> names_of(const Line& line, const Entry& entry, HostDialect dialect) {
  if (dialect == HostDialect::kDeepSpeed) return {std::string(entry.name)};
  try {
    if (entry.name.find(',') != std::string_view::npos &&
        entry.name.find('[') == std::string_view::npos) {
      throw UsageError("one host per line; ranges are written gpu[01-16]");
    }
    return expand_node_list(entry.name);
  } catch (const UsageError& error) {
    line.refuse_at(entry.name_at, error.what());
  }
}

}  // namespace

HostPool parse_hostfile(std::string_view text, std::string_view name, HostDialect dialect) {
  const bool strict = dialect == HostDialect::kDslaunch;
  if (strict && text.size() > kMaxHostfileBytes) {
    throw UsageError(
        fmt::format("{}: {} bytes, expected at most {}", name, text.size(), kMaxHostfileBytes));
  }
  HostPool pool;
  std::set<std::string, std::less<>> seen;
  size_t number = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line_text = text.substr(begin, end - begin);
    begin = end + 1;
    Line line(line_text, name, ++number);
    if (strict) check_bytes(line, line_text);
    line.skip_space();
    if (line.at_end() || line.at_comment()) continue;
    const Entry entry = read_entry(line);
    if (strict) check_rest(line, entry);
    for (std::string& host : names_of(line, entry, dialect)) {
      if (!seen.insert(host).second)
        line.refuse_at(entry.name_at, fmt::format("host {} is there twice", host));
      if (strict && pool.size() == kMaxNodes)
        line.refuse_at(0, fmt::format("more than {} hosts", kMaxNodes));
      pool.push_back({std::move(host), entry.slots});
    }
  }
  if (pool.empty())
    throw UsageError(fmt::format("{}: no host found, expected lines 'HOST slots=NUMBER'", name));
  return pool;
}

}  // namespace ds
