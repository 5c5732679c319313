// Checksums of 32 bits that file formats ask for: CRC-32 of IEEE 802.3 (zip, gzip) and CRC-32C of
// Castagnoli (LevelDB, TFRecord). They find damage, not intent; digest.h is for what has to be the
// same.
#pragma once

#include <cstdint>
#include <string_view>

namespace ds {

// `before`: the checksum of the bytes that come before these; 0: none.
uint32_t crc32(std::string_view bytes, uint32_t before = 0);
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace ds
