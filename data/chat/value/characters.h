// Characters of texts, as Python's str counts and classes them (pure).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/text/utf8.h"

namespace ds::chat {

bool is_space(char32_t c);  // str.isspace
bool is_line_end(char32_t c);
bool is_printable(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_cased(char32_t c);
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_word(char32_t c);  // \w of a regular expression

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string folded(std::string_view text);  // str.casefold
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);       // str.title: behind what has no case
std::string word_titled(std::string_view text);  // Jinja's filter: behind spaces and brackets

size_t length_of(std::string_view text);  // in characters
// Returns where the character with that number begins; the size of the text where it has fewer.
size_t offset_of(std::string_view text, size_t character);
std::u32string characters_of(std::string_view text);
std::string text_of(std::u32string_view characters);

enum class Side { kLeft, kRight, kBoth };
std::string_view stripped(std::string_view text, Side side);
std::string_view stripped(std::string_view text, std::string_view of, Side side);
void for_each_line(std::string_view text, bool keep_ends,
                   const std::function<void(std::string_view)>& run);

// `at_most` replacements; below 0: all.
std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t at_most = -1);
std::string escaped(std::string_view text);  // for HTML
std::string ascii(std::string_view text);    // with Python's escapes for all other characters

}  // namespace ds::chat
