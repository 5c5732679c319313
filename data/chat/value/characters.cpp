#include "data/chat/value/characters.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace ds::chat {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool has_property(char32_t c, utf8proc_uint16_t utf8proc_property_t::*mapping) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->*mapping != UINT16_MAX;
}

// Small letters that are several large ones. Others have one, which utf8proc knows.
struct Enlarged {
  char32_t small;
  std::u32string_view upper, title;
};
constexpr std::array kEnlarged{
    Enlarged{U'\u00DF', U"SS", U"Ss"},
    Enlarged{U'\u0149', U"\u02BCN", U"\u02BCN"},
    Enlarged{U'\u01F0', U"J\u030C", U"J\u030C"},
    Enlarged{U'\u0587', U"\u0535\u0552", U"\u0535\u0582"},
    Enlarged{U'\uFB00', U"FF", U"Ff"},
    Enlarged{U'\uFB01', U"FI", U"Fi"},
    Enlarged{U'\uFB02', U"FL", U"Fl"},
    Enlarged{U'\uFB03', U"FFI", U"Ffi"},
    Enlarged{U'\uFB04', U"FFL", U"Ffl"},
    Enlarged{U'\uFB05', U"ST", U"St"},
    Enlarged{U'\uFB06', U"ST", U"St"},
};

void append(std::u32string_view characters, std::string& out) {
  for (const char32_t c : characters) append_utf8(c, out);
}

void append_large(char32_t c, std::u32string_view Enlarged::*form, std::string& out) {
  if (const auto known = std::ranges::find(kEnlarged, c, &Enlarged::small);
      known != kEnlarged.end()) {
    return append((*known).*form, out);
  }
  const auto code = static_cast<utf8proc_int32_t>(c);
  const auto large = form == &Enlarged::upper ? utf8proc_toupper(code) : utf8proc_totitle(code);
  append_utf8(static_cast<unsigned>(large), out);
}

bool case_does_not_count(char32_t c) {
  constexpr std::u32string_view kSigns =
      U"'.:^`\u00A8\u00AD\u00AF\u00B4\u00B7\u00B8\u2018\u2019\u2024\u2027";
  return kSigns.find(c) != kSigns.npos || category(c) == UTF8PROC_CATEGORY_MN ||
         category(c) == UTF8PROC_CATEGORY_ME || category(c) == UTF8PROC_CATEGORY_CF ||
         category(c) == UTF8PROC_CATEGORY_LM || category(c) == UTF8PROC_CATEGORY_SK;
}

// A capital sigma that ends a word has a small letter of its own.
bool ends_word(std::u32string_view characters, size_t at) {
  size_t before = at;
  while (before > 0 && case_does_not_count(characters[before - 1])) --before;
  size_t after = at + 1;
  while (after < characters.size() && case_does_not_count(characters[after])) ++after;
  return before > 0 && is_cased(characters[before - 1]) &&
         (after == characters.size() || !is_cased(characters[after]));
}

void append_small(std::u32string_view characters, size_t at, std::string& out) {
  const char32_t c = characters[at];
  if (c == U'\u03A3') return append_utf8(ends_word(characters, at) ? 0x3C2 : 0x3C3, out);
  if (c == U'\u0130') return append(U"i\u0307", out);
  append_utf8(static_cast<unsigned>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

template <class Is>
std::string_view stripped_of(std::string_view text, Side side, const Is& is) {
  while (side != Side::kRight && !text.empty()) {
    const Utf8Character first = first_character(text);
    if (!is(first.code)) break;
    text.remove_prefix(first.length);
  }
  while (side != Side::kLeft && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && is_continuation(text[begin])) --begin;
    if (!is(first_character(text.substr(begin)).code)) break;
    text = text.substr(0, begin);
  }
  return text;
}

template <class Begins>
std::string titled_where(std::string_view text, const Begins& begins) {
  const std::u32string characters = characters_of(text);
  std::string out;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (begins(characters, i)) {
      append_large(characters[i], &Enlarged::title, out);
    } else {
      append_small(characters, i, out);
    }
  }
  return out;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || category(c) == UTF8PROC_CATEGORY_ZL ||
         category(c) == UTF8PROC_CATEGORY_ZP;
}

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_upper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_lower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT ||
         has_property(c, &utf8proc_property_t::lowercase_seqindex) ||
         has_property(c, &utf8proc_property_t::uppercase_seqindex);
}
bool is_letter(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) {
  return is_digit(c) || category(c) == UTF8PROC_CATEGORY_NO || category(c) == UTF8PROC_CATEGORY_NL;
}
bool is_word(char32_t c) { return c == '_' || is_letter(c) || is_numeric(c); }

std::string upper(std::string_view text) {
  std::string out;
  for (const char32_t c : characters_of(text)) append_large(c, &Enlarged::upper, out);
  return out;
}

std::string lower(std::string_view text) {
  return titled_where(text, [](const auto&, size_t) { return false; });
}

std::string capitalized(std::string_view text) {
  return titled_where(text, [](const auto&, size_t at) { return at == 0; });
}

std::string titled(std::string_view text) {
  return titled_where(text, [](const std::u32string& characters, size_t at) {
    return is_cased(characters[at]) && (at == 0 || !is_cased(characters[at - 1]));
  });
}

std::string word_titled(std::string_view text) {
  std::string out;
  std::u32string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    append_large(word[0], &Enlarged::upper, out);
    out += lower(text_of(word.substr(1)));
    word.clear();
  };
  for (const char32_t c : characters_of(text)) {
    constexpr std::u32string_view kBefore = U"-({[<";
    if (is_space(c) || kBefore.find(c) != kBefore.npos) {
      end_word();
      append_utf8(c, out);
    } else {
      word.push_back(c);
    }
  }
  end_word();
  return out;
}

size_t length_of(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

size_t offset_of(std::string_view text, size_t character) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (is_continuation(text[at])) continue;
    if (character-- == 0) break;
  }
  return at;
}

std::u32string characters_of(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    out.push_back(first.code);
    text.remove_prefix(first.length);
  }
  return out;
}

std::string text_of(std::u32string_view characters) {
  std::string out;
  append(characters, out);
  return out;
}

std::string_view stripped(std::string_view text, Side side) {
  return stripped_of(text, side, [](char32_t c) { return is_space(c); });
}

std::string_view stripped(std::string_view text, std::string_view of, Side side) {
  const std::u32string characters = characters_of(of);
  return stripped_of(text, side, [&](char32_t c) { return characters.find(c) != characters.npos; });
}

void for_each_line(std::string_view text, bool keep_ends,
                   const std::function<void(std::string_view)>& run) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character first = first_character(text.substr(at));
    const size_t end = at;
    at += first.length;
    if (!is_line_end(first.code)) continue;
    if (first.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    run(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) run(text.substr(begin));
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t at_most) {
  std::string out;
  size_t at = 0;
  if (from.empty()) {
    while (at_most-- != 0) {
      out += to;
      if (at == text.size()) return out;
      const size_t length = first_character(text.substr(at)).length;
      out += text.substr(at, length);
      at += length;
    }
    return out.append(text.substr(at));
  }
  for (size_t found; at_most-- != 0 && (found = text.find(from, at)) != text.npos;) {
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  return out.append(text.substr(at));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string folded(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = first_character(text.substr(at));
    std::array<utf8proc_int32_t, 8> small{};
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), small.data(), small.size(),
                                UTF8PROC_CASEFOLD, nullptr);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      append_utf8(static_cast<unsigned>(small.at(static_cast<size_t>(i))), out);
    at += c.length;
  }
  return out;
}

std::string ascii(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = first_character(text.substr(at));
    const auto code = static_cast<uint32_t>(c.code);
    if (code < 0x80) {
      out += text[at];
    } else {
      out += code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code);
    }
    at += c.length;
  }
  return out;
}

}  // namespace ds::chat
