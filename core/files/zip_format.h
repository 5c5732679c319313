// The numbers of zip archives that its reader and its writer share (APPNOTE 6.3.10).
#pragma once

#include <cstdint>

namespace ds::zip_format {

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;
inline constexpr uint16_t kDeflated = 8;  // method; 0: stored
inline constexpr int64_t kLocalBytes = 30;
inline constexpr int64_t kCentralBytes = 46;
inline constexpr int64_t kEndBytes = 22;
inline constexpr int64_t kEnd64Bytes = 56;
inline constexpr int64_t kLocator64Bytes = 20;
inline constexpr uint16_t kIn64 = 0xFFFF;  // the number is in the zip64 record instead
inline constexpr uint32_t kIn64Wide = 0xFFFFFFFF;
inline constexpr uint16_t kExtra64 = 1;

}  // namespace ds::zip_format
