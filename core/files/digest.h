// XXH3-128 (Yann Collet) of some bytes. On x86-64 the widest vector unit of the machine is chosen
// at run time (digest_x86.cpp); elsewhere the library's own build decides (digest_portable.cpp).
// Same digests.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace ds {

std::array<std::byte, 16> xxh3_128(
    std::span<const std::byte> bytes);  // canonical (big-endian) order

}  // namespace ds
