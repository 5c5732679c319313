#include "core/text/utf8.h"

namespace ds {

namespace {

constexpr unsigned kReplacement = 0xFFFD;

// Length of the valid sequence at the start of `text`, or 0.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned low = 0x80;  // bounds of the second byte, narrower for a few lead bytes
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF)
    length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF)
    length = 3;
  else if (lead >= 0xF0 && lead <= 0xF4)
    length = 4;
  else
    return 0;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  if (text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  return length;
}

}  // namespace

size_t first_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

Utf8Character first_character(std::string_view text) {
  const size_t length = sequence_length(text);
  if (length == 0) return {kReplacement, 1};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned code = length == 1 ? byte(0) : byte(0) & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3FU);
  return {code, length};
}

void append_utf8(unsigned code, std::string& out) {
  const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string as_utf8(std::string_view bytes) {
  std::string out;
  for (;;) {
    const size_t at = first_invalid_utf8(bytes);
    out += bytes.substr(0, at);
    if (at == std::string_view::npos) return out;
    append_utf8(kReplacement, out);
    bytes.remove_prefix(at + 1);
  }
}

}  // namespace ds
