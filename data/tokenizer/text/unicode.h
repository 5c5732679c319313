// What tokenizers ask about characters, and do to them, by the Unicode tables of utf8proc (pure).
#pragma once

#include <string>
#include <string_view>

#include "core/text/utf8.h"

namespace ds::unicode {

// Questions about one code point; one that is none has no property.
using Property = bool (*)(char32_t);
bool is_white_space(char32_t c);      // White_Space
bool is_mark(char32_t c);             // M*
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_number(char32_t c);           // N*
bool is_word(char32_t c);             // letters, marks, digits, joining signs: \w of UTS 18
// P*, or one of the signs of ASCII that are no letter, digit or space.
bool is_punctuation(char32_t c);
bool is_other(char32_t c);  // controls, formats, surrogates, private use

// The forms of UAX 15.
enum class Form { kNfc, kNfd, kNfkc, kNfkd };
std::string normalized(std::string_view text, Form form);

// Appends the small letters of one character, by itself: no rule looks at what is beside it.
void append_lower(char32_t c, std::string& out);

// Returns where the character that a person sees at the beginning of the text ends: its extended
// grapheme cluster (UAX 29). The text is not empty.
size_t grapheme_bytes(std::string_view text);

// Returns where the white space that ends the text begins, and how long that is which begins it.
size_t space_before(std::string_view text);
size_t space_after(std::string_view text);

// The character that ends a text, which is not empty.
char32_t last_character(std::string_view text);

// Calls `on_character` with the code point, where it begins and how many bytes it has.
template <class OnCharacter>
void for_each_character(std::string_view text, const OnCharacter& on_character) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = first_character(text.substr(at));
    on_character(char32_t{character.code}, at, character.length);
    at += character.length;
  }
}

}  // namespace ds::unicode
