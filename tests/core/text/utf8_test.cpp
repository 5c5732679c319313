// UTF-8 against the definition: every code point one by one, and every short sequence of bytes
// against a decoder that is written from the table of RFC 3629.
#include "core/text/utf8.h"

#include <cstdint>
#include <random>

#include "tests/support/catch.h"

namespace ds {

namespace {

// Decodes the bits first and then asks whether they had to be written so: another way to the same
// rules than the bounds of second bytes.
bool is_valid_by_decoding(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int length = lead < 0x80             ? 1
                       : (lead & 0xE0) == 0xC0 ? 2
                       : (lead & 0xF0) == 0xE0 ? 3
                       : (lead & 0xF8) == 0xF0 ? 4
                                               : 0;
    if (length == 0 || i + static_cast<size_t>(length) > text.size()) return false;
    uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (int k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3F);
    }
    constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kSmallest[length] || code > 0x10FFFF) return false;
    if (code >= 0xD800 && code <= 0xDFFF) return false;
    i += static_cast<size_t>(length);
  }
  return true;
}

std::string bytes_of(uint32_t bits, int count) {
  std::string out;
  for (int i = count - 1; i >= 0; --i) out += static_cast<char>(bits >> (8 * i) & 0xFF);
  return out;
}

}  // namespace

TEST_CASE("every code point is written so that it is valid and decodes to itself", "[core]") {
  for (unsigned code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(code, text);
    const size_t expected = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (text.size() != expected || first_invalid_utf8(text) != std::string_view::npos ||
        !is_valid_by_decoding(text)) {
      FAIL("code point " << code << " is written in " << text.size() << " bytes");
    }
  }
}

TEST_CASE("code points are appended, not put in place of what is there", "[core]") {
  std::string text = "x";
  append_utf8(0x20AC, text);
  append_utf8(0x41, text);
  CHECK(text ==
        "x\xE2\x82\xAC"
        "A");
}

TEST_CASE("all sequences of two bytes are judged as the decoder judges them", "[core]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const std::string text = bytes_of(bits, 2);
    if ((first_invalid_utf8(text) == std::string_view::npos) != is_valid_by_decoding(text)) {
      FAIL("bytes " << std::hex << bits);
    }
  }
}

TEST_CASE("longer sequences are judged as the decoder judges them", "[core]") {
  std::mt19937 random(5);
  int valid = 0;
  for (int i = 0; i < 300'000; ++i) {
    const auto lead = static_cast<uint32_t>(0xE0 + random() % 0x18);
    const auto rest = static_cast<uint32_t>((random() & 0x3F3F3F) | 0x808080);
    const std::string four = bytes_of(lead << 24 | rest, 4);
    for (const std::string& text : {four, four.substr(0, 3)}) {
      const bool good = is_valid_by_decoding(text);
      valid += good ? 1 : 0;
      if ((first_invalid_utf8(text) == std::string_view::npos) != good) {
        FAIL("bytes " << std::hex << (lead << 24 | rest) << ", " << text.size() << " of them");
      }
    }
  }
  CHECK(valid > 10'000);
}

TEST_CASE("the first bad byte is where its sequence starts", "[core]") {
  CHECK(first_invalid_utf8("") == std::string_view::npos);
  CHECK(first_invalid_utf8("abc\x80") == 3);
  CHECK(first_invalid_utf8("\xC3\xA9\xE2\x82") == 2);
  CHECK(first_invalid_utf8("\xE2\x82\xAC\xFF\xFF") == 3);
  CHECK(first_invalid_utf8(std::string_view("a\0b", 3)) == std::string_view::npos);
}

TEST_CASE("the first character is the one that was written, whatever follows", "[core]") {
  for (unsigned code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(code, text);
    const size_t length = text.size();
    const Utf8Character first = first_character(text + "\x80");
    if (first.code != code || first.length != length) FAIL(code);
  }
  for (const char* bad : {"\x80", "\xFFx", "\xC3", "\xE2\x82", "\xED\xA0\x80", "\xC0\x80"}) {
    CAPTURE(bad);
    CHECK(first_character(bad).code == 0xFFFD);
    CHECK(first_character(bad).length == 1);
  }
}

}  // namespace ds
