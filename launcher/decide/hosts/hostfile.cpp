// Hostfiles.
#include "launcher/decide/hosts/hostfile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "core/status/error.h"
#include "core/text/byte_order_mark.h"
#include "core/text/letters.h"
#include "launcher/decide/hosts/node_list.h"

namespace ds {

namespace {

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
  bool at_gap() const { return at_end() || is_space(text_[at_]); }
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
  // What stands from `begin` to `end`, with the columns of the whole.
  Line part(size_t begin, size_t end) const {
    Line out(text_.substr(0, end), file_, number_);
    out.at_ = begin;
    return out;
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
  std::string name;
  size_t name_at = 0;
  std::optional<int64_t> slots;  // none: the line is one slot
  size_t slots_at = 0;
};

Entry read_entry(Line& line) {
  Entry entry;
  entry.name_at = line.position();
  entry.name = line.word();
  line.skip_space();
  if (!line.take("slots=")) line.refuse("expected 'HOST slots=NUMBER'");
  entry.slots_at = line.position();
  entry.slots = line.number();
  if (!entry.slots) line.refuse("expected the number of slots");
  return entry;
}

void check_slots(const Line& line, const Entry& entry) {
  if (*entry.slots >= 1 && *entry.slots <= kMaxSlots) return;
  line.refuse_at(entry.slots_at,
                 fmt::format("{} slots, expected 1 to {}", *entry.slots, kMaxSlots));
}

// Returns where in `word` the host ends and ":NUMBER" may follow. Colons within an IPv6 address,
// which may stand in brackets, are its own.
size_t end_of_host(std::string_view word) {
  const size_t from = std::min(word.find("]:"), word.size());
  const size_t colon = word.find(':', from < word.size() ? from : 0);
  const bool alone = colon == word.rfind(':');
  return alone ? std::min(colon, word.size()) : word.size();
}

// "user@[fd00::1]" without the brackets; those of a range "gpu[01-16]" stay.
std::string without_brackets(std::string_view host) {
  const size_t open = host.find('@') + 1;  // 0 where there is no user
  const bool address =
      host.find('[') == open && host.ends_with(']') && host.find(':') != std::string_view::npos;
  if (!address) return std::string(host);
  return fmt::format("{}{}", host.substr(0, open), host.substr(open + 1, host.size() - open - 2));
}

// "host", "host:4", "[fd00::1]", "[fd00::1]:4".
void read_name(Line& line, Entry& entry) {
  entry.name_at = line.position();
  const std::string_view word = line.word();
  const size_t end = end_of_host(word);
  entry.name = without_brackets(word.substr(0, end));
  if (end == word.size()) return;
  entry.slots_at = entry.name_at + end + 1;
  Line number = line.part(entry.slots_at, line.position());
  entry.slots = number.number();
  if (!entry.slots || !number.at_end()) number.refuse("expected the number of slots behind ':'");
  if (entry.name.find('@') != std::string::npos) {
    line.refuse_at(
        entry.slots_at,
        "a number of slots or a port? Write 'USER@HOST slots=NUMBER'; ports are given by "
        "--ssh-port, or in ssh's configuration");
  }
  check_slots(line, entry);
}

void read_number(Line& line, std::string_view key, Entry& entry) {
  const size_t at = line.position();
  const auto number = line.number();
  if (key != "slots=") {
    if (!number) line.refuse(fmt::format("expected a number after {}", key));
    return;
  }
  if (!number) line.refuse("expected the number of slots");
  if (entry.slots) {
    line.refuse_at(at, fmt::format("the slots are said twice ({} and {}); a port of ssh is given "
                                   "by --ssh-port, or in ssh's configuration",
                                   *entry.slots, *number));
  }
  entry.slots = number;
  entry.slots_at = at;
  check_slots(line, entry);
}

// Up to where a comment begins, which no name or number has in it.
Entry read_free_entry(Line& line) {
  constexpr std::array<std::string_view, 3> kKeys{"slots=", "max_slots=", "max-slots="};
  Entry entry;
  read_name(line, entry);
  for (line.skip_space(); !line.at_end(); line.skip_space()) {
    const auto* const key =
        std::ranges::find_if(kKeys, [&](std::string_view word) { return line.take(word); });
    if (key == kKeys.end()) {
      line.refuse(entry.slots ? "unexpected text after the number of slots"
                              : "expected 'HOST slots=NUMBER', or HOST alone, once for each slot");
    }
    read_number(line, *key, entry);
    if (!line.at_gap()) line.refuse("unexpected text after the number of slots");
  }
  return entry;
}

// Bytes beyond ASCII are for comments.
void check_bytes(const Line& line, std::string_view text, size_t comment_at) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_control = (byte < 0x20 && byte != '\t') || byte == 0x7f;
    if (is_control || (byte > 0x7f && i < comment_at)) {
      line.refuse_at(
          i, fmt::format("byte 0x{:02x} is not allowed; write hosts in ASCII, comments in UTF-8",
                         static_cast<unsigned>(byte)));
    }
  }
}

std::vector<std::string> names_of(const Line& line, const Entry& entry, HostDialect dialect) {
  if (dialect == HostDialect::kDeepSpeed) return {entry.name};
  try {
    if (entry.name.find(',') != std::string::npos && entry.name.find('[') == std::string::npos) {
      throw UsageError("one host per line; ranges are written gpu[01-16]");
    }
    return expand_node_list(entry.name);
  } catch (const UsageError& error) {
    line.refuse_at(entry.name_at, error.what());
  }
}

class Pool {
 public:
  explicit Pool(HostDialect dialect) : strict_(dialect == HostDialect::kDslaunch) {}

  void add(const Line& line, const Entry& entry, std::string host) {
    const auto [place, is_new] = places_.try_emplace(host, hosts_.size());
    if (is_new) {
      if (strict_ && hosts_.size() == kMaxNodes)
        line.refuse_at(0, fmt::format("more than {} hosts", kMaxNodes));
      hosts_.push_back({std::move(host), entry.slots.value_or(1), entry.slots.has_value()});
      return;
    }
    Host& there = hosts_[place->second];
    if (there.slots_said || entry.slots) {
      line.refuse_at(entry.name_at,
                     fmt::format("host {} is there twice{}", host,
                                 there.slots_said && entry.slots
                                     ? ""
                                     : ", once with a number of slots and once without"));
    }
    if (++there.slots > kMaxSlots) {
      line.refuse_at(entry.name_at, fmt::format("more than {} lines name {}", kMaxSlots, host));
    }
  }
  HostPool take() { return std::move(hosts_); }

 private:
  bool strict_;
  HostPool hosts_;
  std::map<std::string, size_t, std::less<>> places_;
};

}  // namespace

HostPool parse_hostfile(std::string_view text, std::string_view name, HostDialect dialect) {
  const bool strict = dialect == HostDialect::kDslaunch;
  if (strict && text.size() > kMaxHostfileBytes) {
    throw UsageError(
        fmt::format("{}: {} bytes, expected at most {}", name, text.size(), kMaxHostfileBytes));
  }
  if (strict) text = without_mark(text);
  Pool pool(dialect);
  size_t number = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line_text = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (strict) {
      if (line_text.ends_with('\r')) line_text.remove_suffix(1);
      const size_t comment = std::min(line_text.find('#'), line_text.size());
      check_bytes(Line(line_text, name, number), line_text, comment);
      line_text = line_text.substr(0, comment);
    }
    Line line(line_text, name, number);
    line.skip_space();
    if (line.at_end() || line.at_comment()) continue;
    const Entry entry = strict ? read_free_entry(line) : read_entry(line);
    for (std::string& host : names_of(line, entry, dialect)) pool.add(line, entry, std::move(host));
  }
  HostPool hosts = pool.take();
  if (hosts.empty())
    throw UsageError(fmt::format("{}: no host found, expected lines 'HOST slots=NUMBER'", name));
  return hosts;
}

}  // namespace ds
