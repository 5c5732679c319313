// How the two index forms of indexed data sets begin (data/indexed_dataset.h).
#pragma once

#include <string_view>

namespace ds {

inline constexpr std::string_view kMmapMagic("MMIDIDX\0\0", 9);
// Its first 8 bytes name the format; the ninth belongs to the header.
inline constexpr std::string_view kMmapName = kMmapMagic.substr(0, 8);
inline constexpr std::string_view kCachedMagic("TNTIDX\0\0", 8);

}  // namespace ds
