// UTF-8 validation and encoding for texts of every kind (RFC 3629: no overlong forms, no
// surrogates, at most U+10FFFF). Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ds {

// Whether this byte goes on with a character of UTF-8 that began before it.
inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

// Offset of the first byte that is not part of valid UTF-8, or npos.
size_t first_invalid_utf8(std::string_view text);

// The character that a text, which is not empty, begins with: its code point and how many bytes it
// has. A byte that is no part of valid UTF-8 is U+FFFD.
struct Utf8Character {
  unsigned code = 0;
  size_t length = 1;
};
Utf8Character first_character(std::string_view text);

// Appends the encoding of one code point (no surrogate, at most 0x10FFFF).
void append_utf8(unsigned code, std::string& out);

// With U+FFFD in the place of each byte that is no part of valid UTF-8.
std::string as_utf8(std::string_view bytes);

}  // namespace ds
