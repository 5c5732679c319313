#include "core/files/crc32.h"

#include <libdeflate.h>

#include <array>

namespace ds {
namespace {

using Table = std::array<uint32_t, 256>;

// Returns what each byte makes of the register, for a polynomial with its bits reversed.
constexpr Table table_of(uint32_t polynomial) {
  Table table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    table[byte] = value;
  }
  return table;
}

constexpr Table kCastagnoli = table_of(0x82F63B78);

}  // namespace

uint32_t crc32(std::string_view bytes, uint32_t before) {
  if (bytes.empty()) return before;  // without an address it begins anew
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  uint32_t value = ~before;
  for (const char byte : bytes) {
    value = (value >> 8) ^ kCastagnoli[(value ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~value;
}

}  // namespace ds
