#include "data/tokenizer/text/base64.h"

#include <array>
#include <cstdint>

namespace ds {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> values_of_digits() {
  std::array<int8_t, 256> out{};
  for (int8_t& value : out) value = -1;
  for (size_t i = 0; i < kDigits.size(); ++i)
    out.at(static_cast<unsigned char>(kDigits[i])) = static_cast<int8_t>(i);
  return out;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0U);
    for (size_t i = 0; i < 4; ++i)
      out.push_back(i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 0x3fU] : '=');
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::array kValues = values_of_digits();
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int8_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xffU));
  }
  return out;
}

}  // namespace ds
