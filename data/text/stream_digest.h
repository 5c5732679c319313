// The digest of bytes that come in turn, in any pieces: XXH3-128 of the digests of their blocks of
// 1 MiB.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/files/digest.h"
#include "core/text/hex.h"

namespace ds {

using Digest = std::array<std::byte, 16>;  // XXH3-128

class StreamDigest {
 public:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kBlock - block_.size());
      block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (block_.size() == kBlock) close_block();
    }
  }
  // Returns the digest of all that was added.
  Digest finish() {
    if (!block_.empty()) close_block();
    return xxh3_128(digests_);
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 20;

  void close_block() {
    const Digest digest = xxh3_128(block_);
    digests_.insert(digests_.end(), digest.begin(), digest.end());
    block_.clear();
  }

  std::vector<std::byte> block_;
  std::vector<std::byte> digests_;
};

}  // namespace ds
