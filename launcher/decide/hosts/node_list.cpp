// Lists in short form.
#include "launcher/decide/hosts/node_list.h"

#include <algorithm>
#include <charconv>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/text/socket_address.h"
#include "core/values/index.h"

namespace ds {

namespace {

constexpr size_t kMaxListBytes = size_t{1} << 20;
constexpr size_t kMaxDigits = 9;
constexpr size_t kMaxNameLength = 253;  // of DNS

[[noreturn]] void refuse_at(size_t column, std::string_view what) {
  throw UsageError(fmt::format("node list:{}: {}", column + 1, what));
}

// One bracket's numbers as texts.
class RangeReader {
 public:
  RangeReader(std::string_view text, size_t column) : text_(text), column_(column) {}

  std::vector<std::string> read() {
    std::vector<std::string> numbers;
    while (true) {
      const std::string_view low = digits();
      std::string_view high = low;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        high = digits();
      }
      append(numbers, low, high);
      if (at_ == text_.size()) return numbers;
      if (text_[at_] != ',') refuse_at(column_ + at_, "expected a digit, '-' or ',' in a range");
      ++at_;
    }
  }

 private:
  std::string_view digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == begin) refuse_at(column_ + at_, "expected a number");
    if (at_ - begin > kMaxDigits) refuse_at(column_ + begin, "the number is too long");
    return text_.substr(begin, at_ - begin);
  }

  void append(std::vector<std::string>& numbers, std::string_view low,
              std::string_view high) const {
    int64_t first = 0, last = 0;
    std::from_chars(low.data(), low.data() + low.size(), first);
    std::from_chars(high.data(), high.data() + high.size(), last);
    if (last < first) refuse_at(column_, fmt::format("range {}-{} descends", low, high));
    if (to_size(last - first) >= kMaxNodes - std::min(numbers.size(), kMaxNodes)) {
      refuse_at(column_, fmt::format("range {}-{} makes more than {} nodes", low, high, kMaxNodes));
    }
    const size_t width = low.starts_with('0') ? low.size() : 0;
    for (int64_t number = first; number <= last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, width));
  }

  std::string_view text_;
  size_t column_;
  size_t at_ = 0;
};

// All names of one item without commas outside brackets.
std::vector<std::string> expand_item(std::string_view item, size_t column) {
  std::vector<std::string> names{""};
  size_t literal = 0;
  for (size_t at = 0; at < item.size();) {
    if (item[at] != '[') {
      if (item[at] == ']') refuse_at(column + at, "']' without '['");
      // Before the names are multiplied: no name may be long times many.
      if (++literal > kMaxNameLength) refuse_at(column, "a name is too long");
      for (std::string& name : names) name += item[at];
      ++at;
      continue;
    }
    const size_t end = item.find(']', at);
    const std::string_view inner =
        item.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    if (end == std::string_view::npos || inner.find('[') != std::string_view::npos) {
      refuse_at(column + at, "'[' is not closed before the end of the name or the next '['");
    }
    const auto numbers = RangeReader(inner, column + at + 1).read();
    if (names.size() * numbers.size() > kMaxNodes) refuse_at(column + at, "more nodes than can be");
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    at = end + 1;
  }
  return names;
}

// Printable form of one character for messages.
std::string shown(char c) {
  if (c >= 0x20 && c < 0x7f) return fmt::format("'{}'", c);
  return fmt::format("byte 0x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text) {
  if (text.size() > kMaxListBytes) refuse_at(kMaxListBytes, "the list is longer than 1 MiB");
  std::vector<std::string> names;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '[') ++depth;
    if (at < text.size() && text[at] == ']') --depth;
    if (at < text.size() && (text[at] != ',' || depth > 0)) continue;
    // All names of an item differ in digits only, so that the first one speaks for all.
    const std::string_view item = text.substr(begin, at - begin);
    auto more = expand_item(item, begin);
    try {
      require_host_name(more.front());
    } catch (const UsageError& error) {
      refuse_at(begin, error.what());
    }
    if (more.size() > kMaxNodes - names.size())
      refuse_at(begin, fmt::format("more than {} nodes", kMaxNodes));
    std::ranges::move(more, std::back_inserter(names));
    begin = at + 1;
  }
  return names;
}

bool is_ipv6_address(std::string_view name) {
  const bool may_be = name.size() < INET6_ADDRSTRLEN && name.find(':') != std::string_view::npos;
  return may_be && parse_address(std::string(name), 0).has_value();
}

void require_host_name(std::string_view name) {
  std::string_view host = name;
  const auto check_part = [&](std::string_view part, std::string_view what) {
    if (part.empty()) throw UsageError(fmt::format("{} is empty", what));
    if (part.size() > kMaxNameLength)
      throw UsageError(fmt::format("{} has {} characters", what, part.size()));
    if (!is_letter(part[0]) && !is_digit(part[0]) && part[0] != '_') {
      throw UsageError(fmt::format("{} must not begin with {}", what, shown(part[0])));
    }
    for (const char c : part) {
      if (!is_letter(c) && !is_digit(c) && c != '.' && c != '_' && c != '-') {
        throw UsageError(fmt::format("{} must not contain {}", what, shown(c)));
      }
    }
  };
  if (const size_t at = name.find('@'); at != std::string_view::npos) {
    check_part(name.substr(0, at), "the user name");
    host = name.substr(at + 1);
  }
  if (is_ipv6_address(host)) return;
  check_part(host, "the host name");
}

int64_t parse_whole_number(std::string_view text, std::string_view what) {
  std::string_view digits = text;
  while (!digits.empty() && is_space(digits.front())) digits.remove_prefix(1);
  while (!digits.empty() && is_space(digits.back())) digits.remove_suffix(1);
  if (digits.size() > 1 && digits.front() == '+' && is_digit(digits[1])) digits.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    throw UsageError(fmt::format("{} is '{}', expected a whole number", what, text));
  }
  return value;
}

std::vector<int> parse_core_list(std::string_view text) {
  constexpr int64_t kMaxCore = 1 << 16;
  std::vector<int> cores;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t dash = part.find('-');
    const int64_t first = parse_whole_number(part.substr(0, dash), "core list entry");
    const int64_t last = dash == std::string_view::npos
                             ? first
                             : parse_whole_number(part.substr(dash + 1), "core list entry");
    if (first < 0 || last < first || last > kMaxCore) {
      throw UsageError(
          fmt::format("core list: '{}' is no ascending range within 0..{}", part, kMaxCore));
    }
    if (!cores.empty() && first <= cores.back()) {
      throw UsageError(fmt::format("core list: '{}' does not ascend from {}", part, cores.back()));
    }
    for (int64_t core = first; core <= last; ++core) cores.push_back(static_cast<int>(core));
    begin = end + 1;
  }
  return cores;
}

NodeCount parse_node_count(std::string_view text, Elasticity elasticity) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {.min = parse_whole_number(text, "number of nodes")};
  if (elasticity == Elasticity::kOff) {
    throw UsageError(fmt::format("number of nodes is '{}': MIN:MAX needs elastic training", text));
  }
  return {.min = parse_whole_number(text.substr(0, colon), "least number of nodes"),
          .max = parse_whole_number(text.substr(colon + 1), "largest number of nodes")};
}

}  // namespace ds
