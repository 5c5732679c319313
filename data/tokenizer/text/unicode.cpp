#include "data/tokenizer/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/status/error.h"
#include "core/text/letters.h"
#include "core/values/index.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/text/unicode_of_reference.h"

namespace ds::unicode {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Letters, marks, decimal digits and joining signs, and letters in circles.
bool belongs_to_words(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_SO:
      return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
             (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    default:
      return c == 0x200c || c == 0x200d;
  }
}

utf8proc_option_t options_of(Form form) {
  int options = UTF8PROC_STABLE;
  const bool composes = form == Form::kNfc || form == Form::kNfkc;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::kNfkc || form == Form::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

// Marks that follow each other in the order that normal forms have them in. utf8proc sorts by
// exchanging neighbours, which takes the square of a run's length unless it is sorted.
std::string with_sorted_marks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<char32_t> run;
  const auto class_of = [](char32_t c) {
    return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  };
  const auto end_run = [&] {
    std::ranges::stable_sort(run, {}, class_of);
    for (const char32_t c : run) append_utf8(static_cast<unsigned>(c), out);
    run.clear();
  };
  for_each_character(text, [&](char32_t c, size_t at, size_t bytes) {
    if (c >= 0x300 && class_of(c) != 0) {
      run.push_back(c);
      return;
    }
    if (!run.empty()) end_run();
    out += text.substr(at, bytes);
  });
  end_run();
  return out;
}

void append_mapped(std::string_view part, Form form, std::string& out) {
  if (is_ascii(part)) {
    out += part;
    return;
  }
  const std::string text = with_sorted_marks(part);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_of(form));
  if (bytes < 0) {
    throw DataError(fmt::format("tokenizer: a text cannot be brought into a normal form: {}",
                                utf8proc_errmsg(bytes)));
  }
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(bytes));
}

constexpr char32_t kLeastThatStays = kStaysInCompatibility[0].first;

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return is_space(static_cast<char>(c));
  if (c == 0x85) return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

bool is_mark(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME) !=
         is_within(kOtherwiseMark, c);
}

bool is_nonspacing_mark(char32_t c) {
  return (category(c) == UTF8PROC_CATEGORY_MN) != is_within(kOtherwiseNonspacing, c);
}

bool is_number(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) !=
         is_within(kOtherwiseNumber, c);
}

bool is_word(char32_t c) {
  if (c < 0x80)
    return is_letter(static_cast<char>(c)) || is_digit(static_cast<char>(c)) || c == '_';
  return belongs_to_words(c) != is_within(kOtherwiseWord, c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    const char sign = static_cast<char>(c);
    return c > 0x20 && c != 0x7f && !is_letter(sign) && !is_digit(sign);
  }
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO) !=
         is_within(kOtherwisePunctuation, c);
}

bool is_other(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_CC && kind <= UTF8PROC_CATEGORY_CO) !=
         is_within(kOtherwiseOther, c);
}

std::string normalized(std::string_view text, Form form) {
  if (is_ascii(text)) return std::string(text);
  const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  const bool apart = form == Form::kNfd || form == Form::kNfkd;
  std::string out;
  size_t rest = 0;
  for_each_character(text, [&](char32_t c, size_t at, size_t bytes) {
    if (c < kLeastThatStays) return;
    if ((compatible && is_within(kStaysInCompatibility, c)) ||
        (apart && is_within(kStaysApart, c))) {
      append_mapped(text.substr(rest, at - rest), form, out);
      rest = at + bytes;
      out += text.substr(at, bytes);
    }
  });
  append_mapped(text.substr(rest), form, out);
  return out;
}

void append_lower(char32_t c, std::string& out) {
  if (c < 0x80) {
    out.push_back(ascii_lower(static_cast<char>(c)));
    return;
  }
  if (c == 0x130) {  // the one letter whose small form is two characters, whatever the language
    out += "i\u0307";
    return;
  }
  for (const SmallLetters& letters : kSmallLetters) {
    if (c < letters.first || c > letters.last) continue;
    append_utf8(letters.small + (c - letters.first), out);
    return;
  }
  append_utf8(static_cast<unsigned>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

size_t grapheme_bytes(std::string_view text) {
  utf8proc_int32_t state = 0;
  Utf8Character before = first_character(text);
  size_t end = before.length;
  while (end < text.size()) {
    const Utf8Character next = first_character(text.substr(end));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    before = next;
    end += next.length;
  }
  return end;
}

size_t space_before(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_white_space(last_character(text.substr(0, begin)))) {
    do --begin;
    while (begin > 0 && is_continuation(text[begin]));
  }
  return begin;
}

size_t space_after(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Character next = first_character(text.substr(end));
    if (!is_white_space(next.code)) break;
    end += next.length;
  }
  return end;
}

char32_t last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && is_continuation(text[begin])) --begin;
  return first_character(text.substr(begin)).code;
}

}  // namespace ds::unicode
