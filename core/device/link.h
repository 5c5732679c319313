// The links between tiers of memory that copies pass over.
#pragma once

#include <cstdint>
#include <string_view>

namespace ds {

enum class Link : uint8_t { kToDevice, kToHost, kNvmeRead, kNvmeWrite };
inline constexpr int kLinks = 4;
std::string_view name_of(Link link);  // "h2d", "d2h", "nvme_read", "nvme_write"

}  // namespace ds
