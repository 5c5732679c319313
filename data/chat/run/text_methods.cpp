#include "data/chat/run/text_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

using Call = Value (*)(Context&, const Value&, const Arguments&);

template <std::string (*kChange)(std::string_view)>
Value changed(Context& context, const Value& self, const Arguments&) {
  context.budget().spend_on(4 * self.as_text().size());
  return context.text(kChange(self.as_text()));
}

template <bool (*kIs)(char32_t)>
Value all_are(Context& context, const Value& self, const Arguments&) {
  context.budget().spend_on(self.as_text().size());
  const std::u32string characters = characters_of(self.as_text());
  return Value(!characters.empty() && std::ranges::all_of(characters, kIs));
}

// Whether there are letters of one case, and none of the other.
template <bool (*kIs)(char32_t), bool (*kIsOther)(char32_t)>
Value cased(Context& context, const Value& self, const Arguments&) {
  context.budget().spend_on(self.as_text().size());
  const std::u32string characters = characters_of(self.as_text());
  return Value(std::ranges::any_of(characters, kIs) && std::ranges::none_of(characters, kIsOther));
}

bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }

Value is_ascii(Context& context, const Value& self, const Arguments&) {
  context.budget().spend_on(self.as_text().size());
  return Value(std::ranges::all_of(self.as_text(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

Value are_printable(Context& context, const Value& self, const Arguments&) {
  context.budget().spend_on(self.as_text().size());
  return Value(std::ranges::all_of(characters_of(self.as_text()), is_printable));
}

Value is_title(Context& context, const Value& self, const Arguments&) {
  context.budget().spend_on(self.as_text().size());
  const std::u32string characters = characters_of(self.as_text());
  bool any = false, behind = false;
  for (const char32_t c : characters) {
    if (is_cased(c) && is_lower(c) != behind) return Value(false);
    any |= is_cased(c);
    behind = is_cased(c);
  }
  return Value(any);
}

std::string swapped_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = first_character(text.substr(at));
    const std::string_view one = text.substr(at, c.length);
    out += is_upper(c.code) ? lower(one) : is_lower(c.code) ? upper(one) : std::string(one);
    at += c.length;
  }
  return out;
}

template <Side kSide>
Value strip(Context& context, const Value& self, const Arguments& arguments) {
  context.budget().spend_on(self.as_text().size());
  if (!arguments.has(0) || arguments[0].is(Kind::kNone))
    return context.text(stripped(self.as_text(), kSide));
  return context.text(stripped(self.as_text(), text_of("strip", arguments[0]), kSide));
}

// The bytes of a text between two numbers of characters, as slices count them.
struct Part {
  std::string_view text;
  size_t offset = 0;      // in bytes
  int64_t character = 0;  // in characters
  bool exists = true;     // false: it begins behind the end
};

Part part_of(std::string_view text, const Arguments& arguments, size_t first) {
  const auto size = static_cast<int64_t>(length_of(text));
  const auto bound = [&](size_t index, int64_t otherwise) {
    if (arguments.positional.size() <= index || !arguments.has(index) ||
        arguments[index].is(Kind::kNone))
      return otherwise;
    const int64_t at = int_of("a position in a text", arguments[index]);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t begin = bound(first, 0), end = std::min(bound(first + 1, size), size);
  if (begin > end) return {{}, text.size(), begin, false};
  const size_t from = offset_of(text, static_cast<size_t>(begin));
  const size_t to = offset_of(text, static_cast<size_t>(end));
  return {text.substr(from, to - from), from, begin};
}

void spend_on_search(Context& context, const Value& self, std::string_view sought) {
  context.budget().spend_on(self.as_text().size());
  context.budget().spend(self.as_text().size() / 256 * sought.size() / 256);
}

enum class Missing { kMinusOne, kFault };
template <bool kFromRight, Missing kMissing>
Value find(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& sought = text_of("find", arguments[0]);
  spend_on_search(context, self, sought);
  const Part part = part_of(self.as_text(), arguments, 1);
  const size_t found = !part.exists ? std::string_view::npos
                       : kFromRight ? part.text.rfind(sought)
                                    : part.text.find(sought);
  if (found != std::string_view::npos)
    return Value(part.character + static_cast<int64_t>(length_of(part.text.substr(0, found))));
  if (kMissing == Missing::kFault) throw Fault("index: the text is not found");
  return Value(int64_t{-1});
}

Value count(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& sought = text_of("count", arguments[0]);
  spend_on_search(context, self, sought);
  const Part part = part_of(self.as_text(), arguments, 1);
  if (!part.exists) return Value(int64_t{0});
  if (sought.empty()) return Value(static_cast<int64_t>(length_of(part.text)) + 1);
  int64_t found = 0;
  for (size_t at = 0; (at = part.text.find(sought, at)) != part.text.npos; at += sought.size())
    ++found;
  return Value(found);
}

template <bool (*kMatches)(std::string_view, std::string_view)>
Value matches(Context& context, const Value& self, const Arguments& arguments) {
  context.budget().spend(1 + self.as_text().size() / 256);
  const Part part = part_of(self.as_text(), arguments, 1);
  const auto matches_one = [&](const Value& affix) {
    return kMatches(part.text, text_of("startswith or endswith", affix)) && part.exists;
  };
  if (!arguments[0].is(Kind::kTuple)) return Value(matches_one(arguments[0]));
  return Value(std::ranges::any_of(arguments[0].items(), matches_one));
}

bool begins(std::string_view text, std::string_view with) { return text.starts_with(with); }
bool ends(std::string_view text, std::string_view with) { return text.ends_with(with); }

// How many replacements there are.
size_t places_of(std::string_view text, std::string_view sought, int64_t at_most) {
  size_t found = sought.empty() ? text.size() + 1 : 0;
  for (size_t at = 0; !sought.empty() && (at = text.find(sought, at)) != text.npos;
       at += sought.size())
    ++found;
  return at_most < 0 ? found : std::min(found, static_cast<size_t>(at_most));
}

// The most that a method may replace or cut; -1: all.
int64_t limit_of(std::string_view operation, const Value& value) {
  return std::max<int64_t>(int_of(operation, value), -1);
}

Value replace(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& from = text_of("replace", arguments[0]);
  std::string to = text_of("replace", arguments[1]);
  if (self.is_markup() && !arguments[1].is_markup()) to = escaped(to);
  const std::string source = self.is_markup() ? escaped(from) : from;
  const int64_t at_most = arguments.has(2) ? limit_of("replace", arguments[2]) : -1;
  spend_on_search(context, self, from);
  const size_t places = places_of(self.as_text(), source, at_most);
  if (to.size() > source.size()) {  // what comes out may be far larger than what goes in
    const size_t limit = context.budget().limits().bytes;
    if (places > limit / to.size()) context.budget().take(limit + 1);
    const Charge room(&context.budget(), places * to.size());
  }
  context.budget().spend_on(self.as_text().size());
  return context.text(replaced(self.as_text(), source, to, at_most));
}

Value remove_prefix(Context& context, const Value& self, const Arguments& arguments) {
  std::string_view text = self.as_text();
  const std::string& prefix = text_of("removeprefix", arguments[0]);
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return context.text(text);
}

Value remove_suffix(Context& context, const Value& self, const Arguments& arguments) {
  std::string_view text = self.as_text();
  const std::string& suffix = text_of("removesuffix", arguments[0]);
  if (!suffix.empty() && text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return context.text(text);
}

Value lines(Context& context, const Value& self, const Arguments& arguments) {
  context.budget().spend_on(self.as_text().size());
  Values out;
  for_each_line(self.as_text(), arguments.has(0) && arguments[0].is_true(),
                [&](std::string_view line) { out.push_back(context.text(line)); });
  return context.list(std::move(out));
}

// What a text is cut into. Each piece counts as a value at once: there may be as many as bytes.
class Pieces {
 public:
  explicit Pieces(Context& context) : context_(context) {}
  void push_back(std::string_view piece) { values_.push_back(context_.text(piece)); }
  void reverse() { std::ranges::reverse(values_); }
  Value take() { return context_.list(std::move(values_)); }

 private:
  Context& context_;
  Values values_;
};

// Words between runs of white space; what is left behind the last cut keeps its own.
void words_from_left(std::string_view text, int64_t cuts, Pieces& out) {
  for (text = stripped(text, Side::kLeft); !text.empty(); text = stripped(text, Side::kLeft)) {
    size_t end = 0;
    while (end < text.size() && !is_space(first_character(text.substr(end)).code))
      end += first_character(text.substr(end)).length;
    if (cuts-- == 0) {
      out.push_back(text);
      break;
    }
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

void words_from_right(std::string_view text, int64_t cuts, Pieces& out) {
  for (text = stripped(text, Side::kRight); !text.empty(); text = stripped(text, Side::kRight)) {
    if (cuts-- == 0) {
      out.push_back(text);
      break;
    }
    size_t begin = text.size();
    for (size_t at = 0; at < text.size(); at += first_character(text.substr(at)).length) {
      if (is_space(first_character(text.substr(at)).code))
        begin = text.size();
      else if (begin == text.size())
        begin = at;
    }
    out.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  out.reverse();
}

void pieces_from_left(std::string_view text, std::string_view by, int64_t cuts, Pieces& out) {
  for (size_t found; cuts-- != 0 && (found = text.find(by)) != text.npos;) {
    out.push_back(text.substr(0, found));
    text.remove_prefix(found + by.size());
  }
  out.push_back(text);
}

void pieces_from_right(std::string_view text, std::string_view by, int64_t cuts, Pieces& out) {
  for (size_t found; cuts-- != 0 && (found = text.rfind(by)) != text.npos;) {
    out.push_back(text.substr(found + by.size()));
    text = text.substr(0, found);
  }
  out.push_back(text);
  out.reverse();
}

template <bool kFromRight>
Value split(Context& context, const Value& self, const Arguments& arguments) {
  const int64_t cuts = arguments.has(1) ? limit_of("split", arguments[1]) : -1;
  const std::string& text = self.as_text();
  Pieces pieces(context);
  if (!arguments.has(0) || arguments[0].is(Kind::kNone)) {
    context.budget().spend_on(4 * text.size());
    // From the right a word is found by going over all before it, so few are cut off so.
    if (kFromRight && cuts >= 0)
      context.budget().spend_on(text.size() *
                                static_cast<size_t>(std::min<int64_t>(cuts, 1 << 20)));
    kFromRight&& cuts >= 0 ? words_from_right(text, cuts, pieces)
                           : words_from_left(text, cuts, pieces);
  } else {
    const std::string& by = text_of("split", arguments[0]);
    if (by.empty()) throw Fault("split: an empty separator");
    spend_on_search(context, self, by);
    kFromRight ? pieces_from_right(text, by, cuts, pieces)
               : pieces_from_left(text, by, cuts, pieces);
  }
  return pieces.take();
}

template <bool kFromRight>
Value partition(Context& context, const Value& self, const Arguments& arguments) {
  const std::string_view text = self.as_text();
  const std::string& by = text_of("partition", arguments[0]);
  if (by.empty()) throw Fault("partition: an empty separator");
  spend_on_search(context, self, by);
  const size_t found = kFromRight ? text.rfind(by) : text.find(by);
  if (found != text.npos)
    return context.tuple({context.text(text.substr(0, found)), context.text(by),
                          context.text(text.substr(found + by.size()))});
  const Value none = context.text(std::string());
  return kFromRight ? context.tuple({none, none, self}) : context.tuple({self, none, none});
}

Value join(Context& context, const Value& self, const Arguments& arguments) {
  std::string out;
  bool first = true;
  for (const Value& item : items_of(context, arguments[0])) {
    if (!std::exchange(first, false)) out += self.as_text();
    out += self.is_markup() && !item.is_markup() ? escaped(text_of("join", item))
                                                 : text_of("join", item);
    context.budget().spend_on(item.as_text().size() + self.as_text().size());
    if (out.size() > context.budget().limits().bytes) context.budget().take(out.size());
  }
  return context.text(std::move(out));
}

enum class Padding { kLeft, kRight, kBoth };
template <Padding kWhere>
Value padded(Context& context, const Value& self, const Arguments& arguments) {
  const size_t width = size_of("a width", arguments[0]);
  const std::string with = arguments.has(1) ? text_of("a fill", arguments[1]) : " ";
  if (length_of(std::string_view(with)) != 1) throw Fault("a fill is one character");
  const size_t length = length_of(std::string_view(self.as_text()));
  const size_t missing = width > length ? width - length : 0;
  context.budget().spend_on(missing + self.as_text().size());
  const size_t left = kWhere == Padding::kLeft    ? missing
                      : kWhere == Padding::kRight ? 0
                                                  : missing / 2 + (missing & width & 1);
  const auto fill = [&](size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += with;
    return out;
  };
  return context.text(fill(left) + self.as_text() + fill(missing - left));
}

Value with_zeros(Context& context, const Value& self, const Arguments& arguments) {
  std::string text = self.as_text();
  const size_t width = size_of("zfill", arguments[0]);
  const size_t length = length_of(std::string_view(text));
  context.budget().spend_on(width + text.size());
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  if (width > length) text.insert(sign, width - length, '0');
  return context.text(std::move(text));
}

Value with_spaces_for_tabs(Context& context, const Value& self, const Arguments& arguments) {
  const int64_t size = arguments.has(0) ? int_of("expandtabs", arguments[0]) : 8;
  const std::string& text = self.as_text();
  const size_t limit = context.budget().limits().bytes;
  context.budget().spend_on(text.size());
  std::string out;
  int64_t column = 0;
  for (const char c : text) {
    if (c == '\t') {
      const int64_t missing = size > 0 ? size - column % size : 0;
      if (missing > static_cast<int64_t>(limit)) context.budget().take(limit + 1);
      out.append(static_cast<size_t>(missing), ' ');
      column += missing;
      if (out.size() > limit) context.budget().take(out.size());
    } else {
      out += c;
      if (!is_continuation(c)) ++column;
      if (c == '\n' || c == '\r') column = 0;
    }
  }
  context.budget().spend_on(out.size());
  return context.text(std::move(out));
}

Value format_by_names(Context& context, const Value& self, const Arguments& arguments) {
  if (!arguments[0].is(Kind::kDict)) refuse_type("format_map", arguments[0]);
  Arguments names;
  for (const auto& [key, value] : arguments[0].as_dict().items) {
    if (key.is(Kind::kText)) names.named.emplace_back(key.as_text(), value);
  }
  return context.text(brace_formatted(context, self, names));
}

Value format(Context& context, const Value& self, const Arguments& arguments) {
  return context.text(brace_formatted(context, self, arguments));
}

// What a method makes of an escaped text counts as escaped, too.
template <Call kRun>
Value of_markup(Context& context, const Value& self, const Arguments& arguments) {
  Value out = kRun(context, self, arguments);
  if (!self.is_markup()) return out;
  const auto marked = [&](const Value& text) {
    return make_markup(&context.budget(), text.as_text());
  };
  if (out.is(Kind::kText)) return marked(out);
  Values items;
  for (const Value& item : out.items()) items.push_back(marked(item));
  return out.is(Kind::kTuple) ? context.tuple(std::move(items)) : context.list(std::move(items));
}

constexpr std::array kMethods{
    Native{"capitalize", "", of_markup<changed<capitalized>>},
    Native{"casefold", "", of_markup<changed<folded>>},
    Native{"center", "/width,fill=", of_markup<padded<Padding::kBoth>>},
    Native{"count", "/sub,start=,end=", count},
    Native{"encode", "", nullptr},
    Native{"endswith", "/suffix,start=,end=", matches<ends>},
    Native{"expandtabs", "tabsize=", of_markup<with_spaces_for_tabs>},
    Native{"find", "/sub,start=,end=", find<false, Missing::kMinusOne>},
    Native{"format", "...", of_markup<format>},
    Native{"format_map", "/mapping", of_markup<format_by_names>},
    Native{"index", "/sub,start=,end=", find<false, Missing::kFault>},
    Native{"isalnum", "", all_are<is_alphanumeric>},
    Native{"isalpha", "", all_are<is_letter>},
    Native{"isascii", "", is_ascii},
    Native{"isdecimal", "", all_are<is_decimal>},
    Native{"isdigit", "", all_are<is_digit>},
    Native{"isidentifier", "", nullptr},
    Native{"islower", "", cased<is_lower, is_upper>},
    Native{"isnumeric", "", all_are<is_numeric>},
    Native{"isprintable", "", are_printable},
    Native{"isspace", "", all_are<is_space>},
    Native{"istitle", "", is_title},
    Native{"isupper", "", cased<is_upper, is_lower>},
    Native{"join", "/iterable", of_markup<join>},
    Native{"ljust", "/width,fill=", of_markup<padded<Padding::kRight>>},
    Native{"lower", "", of_markup<changed<lower>>},
    Native{"lstrip", "/chars=", of_markup<strip<Side::kLeft>>},
    Native{"maketrans", "", nullptr},
    Native{"partition", "/sep", of_markup<partition<false>>},
    Native{"removeprefix", "/prefix", of_markup<remove_prefix>},
    Native{"removesuffix", "/suffix", of_markup<remove_suffix>},
    Native{"replace", "/old,new,count=", of_markup<replace>},
    Native{"rfind", "/sub,start=,end=", find<true, Missing::kMinusOne>},
    Native{"rindex", "/sub,start=,end=", find<true, Missing::kFault>},
    Native{"rjust", "/width,fill=", of_markup<padded<Padding::kLeft>>},
    Native{"rpartition", "/sep", of_markup<partition<true>>},
    Native{"rsplit", "sep=,maxsplit=", of_markup<split<true>>},
    Native{"rstrip", "/chars=", of_markup<strip<Side::kRight>>},
    Native{"split", "sep=,maxsplit=", of_markup<split<false>>},
    Native{"splitlines", "keepends=", of_markup<lines>},
    Native{"startswith", "/prefix,start=,end=", matches<begins>},
    Native{"strip", "/chars=", of_markup<strip<Side::kBoth>>},
    Native{"swapcase", "", of_markup<changed<swapped_case>>},
    Native{"title", "", of_markup<changed<titled>>},
    Native{"translate", "", nullptr},
    Native{"upper", "", of_markup<changed<upper>>},
    Native{"zfill", "/width", of_markup<with_zeros>},
};

}  // namespace

std::span<const Native> text_methods() { return kMethods; }

}  // namespace ds::chat
