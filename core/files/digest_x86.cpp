// XXH3-128 by the AVX-512, AVX2 or SSE2 code of libxxhash, chosen at run time.
#include <xxh_x86dispatch.h>

#include <cstring>

#include "core/files/digest.h"

namespace ds {

std::array<std::byte, 16> xxh3_128(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_dispatch(bytes.data(), bytes.size()));
  std::array<std::byte, 16> out{};
  std::memcpy(out.data(), canonical.digest, out.size());
  return out;
}

}  // namespace ds
