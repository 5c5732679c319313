#include "data/tokenizer/text/byte_letters.h"

#include <array>

#include "data/tokenizer/text/unicode.h"

namespace ds {
namespace {

constexpr size_t kLetters = 512;  // code points below which all letters lie

struct ByteLetters {
  std::array<std::string, 256> letter_of;
  std::array<int, kLetters> byte_of;

  ByteLetters() {
    byte_of.fill(-1);
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
                             (byte >= 0xae && byte <= 0xff);
      const unsigned letter = printable ? byte : next++;
      append_utf8(letter, letter_of.at(byte));
      byte_of.at(letter) = static_cast<int>(byte);
    }
  }
};

const ByteLetters& tables() {
  static const ByteLetters made;
  return made;
}

}  // namespace

std::string to_byte_letters(std::string_view bytes) {
  const ByteLetters& letters = tables();
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) out += letters.letter_of[static_cast<unsigned char>(byte)];
  return out;
}

std::optional<std::string> from_byte_letters(std::string_view text) {
  const ByteLetters& letters = tables();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character letter = first_character(text.substr(at));
    if (letter.code >= kLetters || letters.byte_of[letter.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(letters.byte_of[letter.code]));
    at += letter.length;
  }
  return out;
}

}  // namespace ds
